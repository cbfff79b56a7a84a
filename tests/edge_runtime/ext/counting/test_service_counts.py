"""The whole service: a simulated doorway in, one record of counts a period out, until the ledger says no."""

import json
import signal
import socket
import struct
import subprocess
import sys
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
from tests.support.checkout import ROOT
from tests.support.promised.counting_bundle import counting_example

EPSILON = 100 * 10**6  # so much that a number is changed less than once in a million
NOISE = {"micro_epsilon": EPSILON, "most_each": 3, "most_micro_epsilon": 2 * EPSILON}
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
    receiver = Receiver()
    receiver.start()
    words = ["run", str(made.path), "--trust", str(made.trust), "--source", "simulate:depth?seed=3&people=2&fps=10"]
    words += [
        "--sink",
        f"tcp://127.0.0.1:{receiver.port}",
        "--ledger",
        str(folder / "ledger"),
        "--health",
        "off",
        "--as-root",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "edgeveil.edge_runtime", *words, "--duration", "60", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and len(counts_of(receiver.messages)) < 3:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    out, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    receiver.join(10)
    return receiver.messages, json.loads(out), folder / "ledger"


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
    assert document["frames_out"] > 50
    assert Ledger(str(ledger)).book().lifetime == 2 * EPSILON


@pytest.mark.slow
@pytest.mark.programs
def test_what_else_leaves_is_as_ever(sent):
    messages, _, _ = sent
    records = [one for one in messages if one.startswith(b"EVF1")]
    assert len({len(one) for one in records}) == 1
    assert len(records) > 180  # ten a second, of two whole periods


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
