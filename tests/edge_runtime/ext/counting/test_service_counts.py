"""The whole service: a simulated doorway in, one record of counts a period out, until the ledger says no."""

import json
import signal
import socket
import struct
import threading
import time

import jsonschema
import pytest

from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.bundle.policy import read_policy
from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.ext.ledger import book
from edgeveil.edge_runtime.ext.ledger.book import Ledger
from edgeveil.edge_runtime.ipc.record import Counted
from edgeveil.edge_runtime.manifest.schema import check_manifest
from edgeveil.edge_runtime.outside.service import Service
from edgeveil.edge_runtime.outside.status import Log
from tests.support import bundles, programs
from tests.support.broker_services import arguments, finish, start
from tests.support.checkout import ROOT
from tests.support.promised.counting_bundle import counting_example

EPSILON = 100 * 10**6  # so much that a number is changed less than once in a million
NOISE = {"micro_epsilon": EPSILON, "most_each": 3, "most_micro_epsilon": 2 * EPSILON}
PERIOD_S, QUICK = 10, 2.5
# In each process the clock of the periods is as many seconds ahead as the file has bytes, and quick, as the people are.
AHEAD = """
import os, time
from edgeveil.edge_runtime.{module} import {kind}
from edgeveil.edge_runtime.util.simulated_scene import Scene
made = {kind}.__init__
ahead = lambda: {quick} * time.monotonic() + os.stat({place!r}).st_size
{kind}.__init__ = lambda self, *words, clock, **more: made(self, *words, clock=ahead, **more)
frame = Scene.frame
Scene.frame = lambda self, seconds: frame(self, {quick} * seconds)
"""
COMMAND = """
inner = {inner!r}
process_table.command = lambda module: live_fakes.command(module, inner if module == "inside.process" else "")
"""
SCHEMA = json.loads((ROOT / "docs/reference/schemas/count.schema.json").read_text())


class Receiver(threading.Thread):
    """Takes the messages of one TCP sink until it goes."""

    def __init__(self):
        super().__init__(daemon=True)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.messages = []

    def run(self):
        connection, _ = self.server.accept()
        with connection, connection.makefile("rb") as stream:
            while head := stream.read(4):
                self.messages.append(stream.read(struct.unpack(">I", head)[0]))


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """Messages of a service until its third period was sent, with a budget for two; its document, and its ledger."""
    programs.need("machine-id")  # of a ledger
    folder = tmp_path_factory.mktemp("counts")
    made = bundles.make_bundle(folder, example=counting_example(noise=NOISE))
    book.create(str(folder / "ledger"))
    receiver, ahead = Receiver(), folder / "ahead"
    receiver.start()
    ahead.touch()
    sink, more = f"tcp://127.0.0.1:{receiver.port}", {"ledger": folder / "ledger", "duration": 90, "fps": 10}
    inside = AHEAD.format(module="ext.counting.inside", kind="Counter", place=str(ahead), quick=QUICK)
    outside = AHEAD.format(module="outside.emission", kind="CountEmission", place=str(ahead), quick=QUICK)
    words = arguments(made, "simulate:depth?seed=3&people=2&fps=25", sink, **more)
    process = start(words, folder, outside + COMMAND.format(inner=inside))
    next(line for line in process.stderr if '"source"' in line)
    # One period is watched to its end; the one that runs at the start, and all after it, are over at once.
    over = 0
    while process.poll() is None and len(counts := counts_of(receiver.messages)) < 3:
        if over == len(counts) and b'"part"' not in b"".join(counts[-1:]):
            now_s = int(QUICK * time.monotonic()) + ahead.stat().st_size
            with ahead.open("ab") as file:
                file.write(bytes(PERIOD_S - now_s % PERIOD_S))
            over += 1
        over = max(over, len(counts))
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    code, document, events = finish(process)
    assert code == 0, events
    receiver.join(10)
    return receiver.messages, document, folder / "ledger"


def counts_of(messages):
    return [one for one in list(messages) if b"edgeveil-count" in one]


@pytest.mark.slow
@pytest.mark.programs
def test_counts_leave_once_a_period_and_stop_with_the_budget(sent):
    messages, document, ledger = sent
    counts = list(map(json.loads, counts_of(messages)))
    assert len(counts) >= 3
    assert len(set(map(len, counts_of(messages)))) == 1
    for one in counts:
        jsonschema.validate(one, SCHEMA)
    states = [one["state"] for one in counts]
    first = states.index("counted")
    # The period that runs at the start is sent as a part, unless the service took longer than that to start: the
    # inside has paid for it even so.
    assert states[:first] in ([], ["part"])
    assert set(states[first + 1 :]) == {"spent"}
    periods = [one["period"] for one in counts]
    assert periods == list(range(periods[0], periods[0] + len(periods)))
    whole = counts[first]
    # Both lanes are crossed within ten seconds, each by one person at a time.
    assert 2 <= sum(whole["lines"]["door"].values()) <= 8
    assert 0 <= whole["zones"]["hall"]["occupancy"] <= 2
    assert counts[first + 1]["lines"]["door"] == {"in": None, "out": None}
    assert whole["epsilon"] == 100.0
    assert document["frames_out"] > 20
    assert Ledger(str(ledger)).book().lifetime == 2 * EPSILON


@pytest.mark.slow
@pytest.mark.programs
def test_what_else_leaves_is_as_ever(sent):
    messages, _, _ = sent
    records = [one for one in messages if one.startswith(b"EVF1")]
    assert len({len(one) for one in records}) == 1
    assert len(records) > 36  # ten a second, of one whole period


def test_a_service_that_fell_back_to_label_only_sends_no_counts(tmp_path):
    made = bundles.make_bundle(tmp_path, example=counting_example())
    flags = {"bundle": str(made.path), "trust": str(made.trust), "source": "csv:x", "sink": ["none"]}
    service = Service(config.merged(flags, {}), Log("memory"))
    now, states = 1000.0, []
    service.counts._clock = lambda: now
    service.counts.begin()
    for service.shift.label_only in (False, True):
        service.counts.take(Counted(int(now // 10), True, [1, 2, 3]))
        now += 12.0
        service.counts.tick(0, None)
        states.append((service.counts.last.state, service.counts.last.values))
        now -= 2.0
    assert states == [("counted", [1, 2, 3]), ("missing", None)]


def test_an_owner_who_limits_what_is_told_takes_no_exact_counts():
    policy = read_policy(b'{"schema":1,"hide":[],"spend":{"most_epsilon":10,"period_s":86400}}')
    promise = {"micro_epsilon": 10**9, "unit": "release", "most_micro_epsilon": 10**9, "period_s": None}
    for noise, refused in ((None, True), (NOISE, False)):
        example, _ = counting_example(noise=noise)
        manifest = check_manifest({**example, "spending": promise}, sealed=False)
        if refused:
            with pytest.raises(BundleRefused, match="counts of people leave without noise"):
                policy.check(manifest, None, None, "cpu", None)
        else:
            policy.check(manifest, None, None, "cpu", None)
