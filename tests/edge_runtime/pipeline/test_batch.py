"""File to file: everything counted, nothing perturbed lost, nothing kept after a privacy stop."""

import contextlib
import os
import signal
import threading

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import DeviceFailed, FrameDropped, PrivacyStop
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame, RawFrame
from edgeveil.edge_runtime.pipeline import batch
from edgeveil.edge_runtime.sinks.base import Sink
from edgeveil.edge_runtime.sources.base import Source


class Frames(Source):
    """A source of frames, reasons and errors; a function is called where its turn comes."""

    def __init__(self, *turns):
        self.turns = list(enumerate(turns))

    def next(self):
        if not self.turns:
            return None
        index, turn = self.turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        if callable(turn):
            turn()
        return RawFrame(np.zeros(3, np.uint8), index)


class Perturber:
    promises = False

    def __init__(self, **raises):
        self.raises = {int(index[1:]): error for index, error in raises.items()}

    def perturb(self, frame):
        if frame.index in self.raises:
            raise self.raises[frame.index]
        return PerturbedFrame(frame.index, {"frame": np.ones(3, np.uint8)}, _PIPELINE)


class Kept(Sink):
    def __init__(self, full_at=None):
        self.frames, self.ended, self.full_at = [], None, full_at

    def _write(self, frame):
        if len(self.frames) == self.full_at:
            raise DeviceFailed("full")
        self.frames.append(frame.index)

    def close(self):
        self.ended = "closed"

    def discard(self):
        self.frames, self.ended = [], "discarded"


def test_every_frame_is_counted_once():
    sink = Kept()
    source = Frames(1, FrameDropped("unreadable"), 1, 1, FrameDropped("unreadable"), 1)
    summary = batch.run(source, Perturber(_2=FrameDropped("not-finite")), sink)
    assert sink.frames == [0, 3, 5]
    assert sink.ended == "closed"
    assert summary.frames_in == 6
    assert summary.frames_out == 3
    assert summary.dropped == {"not-finite": 1, "unreadable": 2}
    assert summary.stopped == "end"
    assert summary.seconds >= 0


def test_an_empty_source_is_no_error():
    assert batch.run(Frames(), Perturber(), Kept())[:3] == (0, 0, {})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_frame_in_hand_and_loses_nothing(number):
    sink = Kept()
    before = signal.getsignal(number)
    summary = batch.run(Frames(1, 1, lambda: os.kill(os.getpid(), number), 1, 1), Perturber(), sink)
    assert summary.stopped == "interrupted"
    assert sink.frames == [0, 1, 2]
    assert sink.ended == "closed"
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_breaks_off_and_still_loses_nothing():
    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    sink = Kept()
    with pytest.raises(KeyboardInterrupt):
        batch.run(Frames(1, 1, twice, 1), Perturber(), sink)
    assert sink.frames == [0, 1]
    assert sink.ended == "closed"


@pytest.mark.parametrize("turns", [(1, 1), (1, DeviceFailed("gone")), (1, PrivacyStop("raw"))])
def test_no_signal_breaks_off_what_the_sink_does_last(turns):
    class Slow(Kept):
        def close(self):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            super().close()

        def discard(self):
            os.kill(os.getpid(), signal.SIGTERM)
            super().discard()

    sink = Slow()
    with contextlib.suppress(DeviceFailed, PrivacyStop):
        batch.run(Frames(*turns), Perturber(), sink)
    assert sink.ended in ("closed", "discarded")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_after_a_privacy_stop_the_sink_forgets():
    sink = Kept()
    with pytest.raises(PrivacyStop):
        batch.run(Frames(1, 1, 1), Perturber(_2=PrivacyStop("raw")), sink)
    assert sink.frames == []
    assert sink.ended == "discarded"


@pytest.mark.parametrize("source", [Frames(1, 1, DeviceFailed("gone"), 1), Frames(1, 1, RuntimeError("odd"), 1)])
def test_when_the_source_breaks_what_was_perturbed_is_kept(source):
    sink = Kept()
    with pytest.raises((DeviceFailed, RuntimeError)):
        batch.run(source, Perturber(), sink)
    assert sink.frames == [0, 1]
    assert sink.ended == "closed"


def test_a_full_sink_ends_the_run():
    sink = Kept(full_at=1)
    with pytest.raises(DeviceFailed, match="full"):
        batch.run(Frames(1, 1, 1), Perturber(), sink)
    assert sink.frames == [0]


def test_progress_sees_the_counts():
    seen = []
    source = Frames(1, FrameDropped("unreadable"), 1)
    batch.perturb_all(source, Perturber(), lambda _: None, progress=lambda *counts: seen.append(counts))
    assert seen == [(1, 1), (3, 2)]


def test_it_runs_outside_the_main_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(batch.run(Frames(1, 1), Perturber(), Kept())))
    thread.start()
    thread.join()
    assert results[0].frames_out == 2
