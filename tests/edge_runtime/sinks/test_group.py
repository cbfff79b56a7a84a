"""Several sinks as one: each gets every frame, and what becomes of one is no concern of the others."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, PrivacyStop
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.manifest.manifest import Output
from edgeveil.edge_runtime.sinks import SinkGroup, open_sinks
from edgeveil.edge_runtime.sinks.base import Sink

OUTPUTS = [Output("frame", "frame", "x", (3,), "uint8", None)]


class Kept(Sink):
    def __init__(self, fails=()):
        self.left, self.fails, self.called = [], set(fails), []

    def _write(self, frame):
        if "write" in self.fails:
            raise DeviceFailed("the disk is full")
        self.left.append(frame.index)

    def _end(self, how):
        self.called.append(how)
        if how in self.fails:
            raise DeviceFailed("cannot " + how)

    def flush(self):
        self.called.append("flush")

    def close(self):
        self._end("close")

    def discard(self):
        self._end("discard")


def frame(index):
    return PerturbedFrame(index, {"frame": np.zeros(3, np.uint8)}, _PIPELINE)


def group(*failing, on_failure=None):
    sinks = {"a": Kept(failing), "b": Kept()}
    return SinkGroup(sinks, on_failure), sinks["a"], sinks["b"]


def test_without_a_listener_the_first_error_is_raised_when_all_have_got_theirs():
    sinks, _, good = group("write")
    with pytest.raises(DeviceFailed, match="full"):
        sinks.write(frame(0))
    assert good.left == [0]


def test_a_listener_hears_of_every_lost_frame_and_of_the_end_of_a_failure():
    heard = []
    sinks, bad, good = group(
        "write", on_failure=lambda name, error, n, first: heard.append((name, str(error), n, first))
    )
    sinks.write_set([frame(0), frame(1)])
    sinks.write_set([frame(2), frame(3)])
    bad.fails.clear()
    sinks.write_set([frame(4), frame(5)])
    assert heard == [("a", "the disk is full", 2, True), ("a", "the disk is full", 2, False), ("a", "None", 0, False)]
    assert bad.left == [4, 5]
    assert good.left == [0, 1, 2, 3, 4, 5]
    assert good.called == ["flush"] * 3


def test_what_a_sink_took_and_dropped_is_a_failure_too_and_over_after_a_calm_while():
    heard, now = [], [0.0]
    sink = Kept()
    sinks = SinkGroup({"a": sink}, lambda *what: heard.append((str(what[1]), *what[2:])), clock=lambda: now[0])
    drops = ({}, {"full": 2}, {"full": 2}, {"full": 3, "old": 4}, {"full": 3, "old": 4}, {"full": 3, "old": 4})
    for count, sink.dropped in enumerate([lambda one=one: one for one in drops]):
        sinks.write_set([frame(count)])
        now[0] += 6.0
    full, both = "records were dropped: full", "records were dropped: full; old"
    assert heard == [(full, 2, True), (both, 5, False), ("None", 0, False)]


@pytest.mark.parametrize("how", ["close", "discard"])
def test_all_are_ended_though_one_fails(how):
    sinks, _, good = group(how)
    with pytest.raises(DeviceFailed, match="cannot " + how):
        getattr(sinks, how)()
    assert good.called == [how]


def test_what_is_no_perturbed_frame_reaches_none_of_them():
    sinks, first, second = group(on_failure=lambda *_: None)
    with pytest.raises(PrivacyStop):
        sinks.write_set([np.zeros(3, np.uint8)])
    assert first.left == second.left == []


def test_all_are_opened_or_none(tmp_path):
    with pytest.raises(BadInput, match="folder that exists"):
        open_sinks([f"npz:{tmp_path}/a.npz", f"npz:{tmp_path}/none/b.npz"], OUTPUTS)
    assert list(tmp_path.iterdir()) == []
    sinks = open_sinks([f"npz:{tmp_path}/a.npz", f"csv:{tmp_path}/b.csv"], OUTPUTS)
    sinks.write(frame(7))
    sinks.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "b.csv"]
    assert not sinks.live
