"""Live reports of a promise: their number, times and charges do not depend on what a reading makes the model do."""

from __future__ import annotations

import time

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import FrameDropped
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.ipc.counters import Counters, Schedule, drops
from edgeveil.edge_runtime.pipeline.live import LiveLoop
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.sandbox.watchdog import Watchdog
from edgeveil.edge_runtime.sources.base import Source, now_ns
from tests.edge_runtime.pipeline.test_fixed_input import WAYS, D, failing, readings
from tests.support import bundles
from tests.support.once import nightly_but
from tests.support.promised import local_examples

DUE_S, TICK_S, SLOW_S = 0.25, 0.02, 0.6
LOAD_S = 0.3  # what a busy machine may add; less than a slow model takes


class Given(Source):
    live = True

    def __init__(self, frames, every_s=0.03):
        self.frames, self.every_s = list(frames), every_s

    def next(self):
        if not self.frames:
            return None
        time.sleep(self.every_s)
        frame = self.frames.pop(0)
        return RawFrame(frame._data.copy(), frame.index, now_ns(), track=frame.track)


class Whole:
    ended = ()

    def frames(self, frame):
        return [(0, frame)]

    def restart(self):
        pass


def slow(u):
    time.sleep(SLOW_S)
    return u


@pytest.fixture
def sent(tmp_path, monkeypatch):
    """A function that runs readings through a live loop: the sets, and how long after its frame each was sent."""
    made = bundles.make_bundle(tmp_path, example=local_examples.example("k-rr", 1.0, D))

    def run(frames, how, *, stream=None, tick_s=TICK_S, turn=None):
        with Perturber.open(made.path, trust=made.trust) as perturber:
            monkeypatch.setattr(perturber, "pipeline", failing("oue" if stream else "k-rr", how, stream=stream))
            out, came, counters = [], [], Counters()
            live = LiveLoop(
                perturber,
                Schedule(tick_s, 1, "previous", 60.0, 1),
                open_source=lambda: None,
                capture=Whole(),
                send=lambda sets: out.append((time.monotonic(), sets[0])),
                counters=counters,
                watchdog=Watchdog(60, put_off=lambda _: None),
                note=lambda *_: None,
                max_latency_s=DUE_S,
                recheck_s=1e9,
                turn=(lambda: turn(live)) if turn else lambda: None,
            )
            entered = live._preprocess

            def preprocess(frame):
                one = entered(frame)
                came.extend([] if one is None else [one.came_s])
                return one

            live._preprocess = preprocess
            live.flat()
            live.run(Given(frames))
            assert len(out) == counters.get("sets-out")
            if turn is None:
                assert len(out) == len(came)
                assert len(came) + sum(drops(counters.all()).values()) == len(frames)
            return out, [at - begun for (at, _), begun in zip(out, came, strict=turn is None)], drops(counters.all())

    return run


WELL = []  # how many are sent where no reading fails: counted once


@pytest.mark.parametrize("way", nightly_but(("slow", *WAYS), "slow", "backend", "another shape"))
def test_as_many_sets_are_sent_at_the_same_time_after_their_frames(sent, way):
    how = slow if way == "slow" else WAYS[way]
    for fails in [*[np.zeros(24, bool)] * (not WELL), np.arange(24) % 8 == 0]:
        out, after_s, dropped = sent(readings(fails), how)
        WELL.extend([] if fails.any() else [len(out)])
        assert set(dropped) <= {"newer-frame"}
        assert min(after_s) >= DUE_S  # none sooner, however quick its model was
        assert max(after_s) < DUE_S + LOAD_S  # and none later, however slow
        assert len({frame.drawn for _, frame in out}) == 1  # 0: each is charged
    # Frames are taken by the clock; a camera that is quicker than the ticks has some left out.
    assert len(out) >= 20
    assert abs(len(out) - WELL[0]) <= 2


def test_of_frames_quicker_than_ticks_the_clock_takes_some_and_the_model_none(sent):
    out, _, dropped = sent(readings(np.ones(24, bool)), slow, tick_s=0.1)
    assert 6 <= len(out) <= 14
    assert dropped == {"newer-frame": 24 - len(out)}


def test_a_late_frame_of_a_stream_has_its_tracks_answer(sent):
    fails = np.arange(24) == 12
    out, after_s, _ = sent(readings(fails), slow, stream="period")
    assert max(after_s) < DUE_S + LOAD_S
    assert len({frame.drawn for _, frame in out}) == 1 != 0
    assert len({frame.data.tobytes() for _, frame in out}) == 1


def test_what_is_no_reading_is_dropped_before_the_clock_takes_it(sent):
    frames = readings(np.zeros(24, bool))
    frames[5] = RawFrame(np.zeros(9, np.uint8), 5)
    _, _, dropped = sent(frames, WAYS["backend"])
    assert dropped["shape"] == 1


def test_after_a_stop_no_set_that_is_not_due_is_sent(sent):
    turns = []

    def turn(live):
        turns.append(time.monotonic())
        if turns[-1] - turns[0] > 2 * DUE_S + LOAD_S:
            live.stop()

    out, after_s, dropped = sent(readings(np.zeros(24, bool)) * 10, WAYS["backend"], turn=turn)
    assert time.monotonic() - turns[0] < 5
    assert min(after_s) >= DUE_S
    assert dropped["stopped"] >= 1
    assert len(out) < 60


def test_no_failure_is_hidden_where_nothing_is_promised(tmp_path):
    made = bundles.make_bundle(tmp_path)
    with Perturber.open(made.path, trust=made.trust) as perturber:
        assert not perturber.promises
        with pytest.raises(FrameDropped, match="shape"):
            perturber.perturb(RawFrame(np.zeros(9, np.uint8), 0))
