"""When results leave says nothing of the scene: priorities, the quiet time before a tick, and a test at a receiver."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.ipc.counters import NICE
from edgeveil.edge_runtime.outside.service import Service
from edgeveil.edge_runtime.outside.status import Log
from edgeveil.edge_runtime.sinks.base import Sink
from scripts.measure import emission_times
from tests.support import bundles, live_fakes
from tests.support.broker_services import arguments, start


class Link:
    """An inside whose records are there all the time; it ends after ``turns`` turns of the loop."""

    def __init__(self, turns, manifest_sha256):
        self.left, self.did, self.manifest_sha256 = turns, [], manifest_sha256
        reader, writer = os.pipe()
        os.write(writer, b"a record")
        self.handle, self.ended = reader, False

    def handles(self, *, records=True):
        return [self.handle] if records else []

    def poll(self, _ready):
        self.left -= 1
        self.ended = self.left <= 0
        return []

    def records(self):
        self.did.append("records")
        return []


def loop(tmp_path, quiet_s, due_in_s, turns=1):
    made = bundles.make_bundle(tmp_path)
    flags = {"bundle": str(made.path), "trust": str(made.trust), "source": "csv:x", "sink": ["none"], "health": "off"}
    service = Service(config.merged(flags, {}), Log("memory"))
    service.link = Link(turns, service.link.manifest_sha256)
    service.begun, service.is_live = True, True
    service.emission.quiet_s = lambda: quiet_s
    due_s = time.monotonic() + due_in_s
    service.emission.due_s = lambda: due_s
    service.emission.tick = lambda: service.link.did.append("tick")
    service.sinks.sinks = {"none": Sink()}
    service._update_pages = lambda _now: None
    began = time.monotonic()
    service._loop(os.pipe()[0])
    return service.link.did, time.monotonic() - began


def test_within_the_slack_no_record_is_read_and_the_tick_is_waited_for(tmp_path):
    did, taken_s = loop(tmp_path, -0.001, 0.1)
    assert did == ["tick"]
    assert taken_s >= 0.1
    did, taken_s = loop(tmp_path / "far", 5.0, 6.0)
    assert did == ["records"]
    assert taken_s < 1


def test_a_tick_comes_before_the_records_that_wait(tmp_path):
    assert loop(tmp_path, 5.0, -0.001)[0] == ["tick", "records"]


def test_the_inside_runs_at_a_lower_priority_than_the_outside(tmp_path):
    made = bundles.make_bundle(tmp_path / "b", example=live_fakes.wide_example())
    service = start(arguments(made, "fake:0", f"npz:{tmp_path}/out.npz"), tmp_path)
    try:
        ours, until = os.getpriority(os.PRIO_PROCESS, service.pid), time.monotonic() + 20
        found = None
        while found != ours + NICE and time.monotonic() < until:
            time.sleep(0.1)
            inside = Path(f"/proc/{service.pid}/task/{service.pid}/children").read_text().split()
            found = os.getpriority(os.PRIO_PROCESS, int(inside[0])) if inside else None
        assert found == min(ours + NICE, 19)
    finally:
        service.kill()
        service.communicate()


def turns(shift_ms, seed=0):
    rng = np.random.default_rng(seed)
    scenes = ("blank", "noise", "control") * 10
    return [{"scene": s, "late_ms": rng.normal(shift_ms * (s == "noise"), 1, 90).tolist()} for s in scenes]


def test_the_test_finds_a_difference_and_no_other():
    rng = np.random.default_rng(0)
    found = emission_times.compared(turns(0.5), "noise", rng)
    assert found["record"]["auc"] == pytest.approx(0.638, abs=0.03)
    assert found["ten_seconds"]["auc"] > 0.95
    for scene, shift in (("control", 0.5), ("noise", 0.0)):
        found = emission_times.compared(turns(shift, 1), scene, rng)
        assert found["record"]["auc"] < 0.54
        assert found["ten_seconds"]["low"] < 0.7


def test_auc_is_the_share_of_pairs_in_order():
    assert emission_times.auc(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 1
    assert emission_times.auc(np.array([3.0, 4.0]), np.array([1.0, 2.0])) == 0
    assert emission_times.auc(np.array([1.0, 2.0]), np.array([1.0, 2.0])) == 0.5


@pytest.mark.nightly  # by day its causes and the test of a difference, above; faults: test_emission_is_constant.py
@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a core for the service and one for the receiver")
def test_a_receiver_cannot_tell_noise_from_a_blank_picture():
    pytest.importorskip("cv2")
    for attempt, more in enumerate(((), ("control",), ("control",), ("control",))):
        measured = emission_times.measure(4, None, scenes=("blank", "noise", *more), turn_s=3.5, seed=attempt)
        rows = {row["scene"]: row["record"]["auc"] for row in emission_times.summary("now", measured)["rows"]}
        # Other work on this machine comes and goes; it moves the control as well.
        if rows["noise"] <= max(0.58, rows.get("control", 0) + 0.05):
            return
    raise AssertionError(rows)
