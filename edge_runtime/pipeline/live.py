"""The loop of a live source, in three threads: one captures, one runs the model, one sends.

Between the first two is a place for the newest frame: a frame that is still there when the next one comes is dropped
and counted. So the camera never waits and no queue grows. Windows of a time series come in bursts when the machine is
busy: as many as the schedule's backlog wait there for their ticks. Preprocessing (cropping, scaling) runs in the
capturing thread and postprocessing in the sending one, so that the frame rate comes near the slower of camera and model
(inference releases the GIL). This runs inside; it sends sets, one ``PerturbedFrame`` for each slot, and the outside
decides when to emit them (``outside.emission``).

Where an epsilon is promised, a fourth thread sends: each set ``max_latency_s`` after its frame came, whatever the model
does. Frames are then taken by the clock alone, one a tick, and each that is taken is sent: a slot whose own report is
not there yet has that of a fixed input. So neither number nor times of the sets depend on how long a model runs.
"""

import collections
import contextlib
import queue
import threading
import time
from typing import Any, Callable, List, Optional

import numpy as np

from edgeveil.edge_runtime.errors import DeviceFailed, EdgeVeilError, FrameDropped, SourceFailed, Unsupported, describe
from edgeveil.edge_runtime.frames import PerturbedFrame, RawFrame
from edgeveil.edge_runtime.ipc.counters import DROP, Counters, Schedule, count_latency
from edgeveil.edge_runtime.ipc.pipes import Backoff
from edgeveil.edge_runtime.pipeline.handoff import Handoff, Newest
from edgeveil.edge_runtime.sandbox.watchdog import Watchdog

REOPEN_MOST_S = 30.0  # the longest pause before a failed source is opened again
_WAIT_S = 0.25  # how often a waiting thread checks whether to stop


class _FrameSet(object):
    """One sensor frame between the threads: an ``InFlight`` for each slot, and whether a person is in it."""

    __slots__ = ("busy_us", "came_s", "closing", "frame", "in_flight", "is_closed", "occupied", "reports")

    def __init__(self, frame: RawFrame, came_s: float) -> None:
        self.frame, self.came_s, self.busy_us = frame, came_s, 0
        self.closing = threading.Lock()  # held where a promise is made, while its reports are made
        self.is_closed = False  # what comes now is too late
        self.reports: List[PerturbedFrame] = []
        self.in_flight: List[Any] = []
        self.occupied: List[bool] = []

    def erase(self) -> None:
        """Overwrite the frame and everything computed from it with zeros."""
        for in_flight, occupied in zip(self.in_flight, self.occupied):
            # An empty slot holds the blank frame, which is used again.
            if occupied:
                in_flight.erase()
        self.frame.erase()


class _Tokens(object):
    """No more frames than ticks, with one spare for a slightly irregular camera, or ``most``. ``since_s`` is now."""

    def __init__(self, tick_s: float, since_s: float, most: float = 2.0) -> None:
        self._tick_s, self._since_s, self._most, self._tokens = tick_s, since_s, most, 1.0

    def wait_s(self, now_s: float) -> float:
        """Seconds until one may be taken; 0 or less: now."""
        self._tokens = min(self._tokens + (now_s - self._since_s) / self._tick_s, self._most)
        self._since_s = now_s
        return (1 - self._tokens) * self._tick_s

    def take(self) -> None:
        """Count one."""
        self._tokens -= 1


class LiveLoop(object):
    """Turns a source that may fail into sets of perturbed frames. ``run`` until the source ends or ``stop``.

    ``open_source`` opens it, and again after a fault; ``capture`` makes slots and crops of its frames; ``send`` takes
    a list with one ``PerturbedFrame`` a slot. ``note`` receives faults: a word and a sentence. The perturber's
    ``recheck`` runs every ``recheck_s`` between two frames, and ``turn`` several times a second, with frames or
    without; ``camera_aid`` receives raw samples while a person aims the camera (``pipeline.camera_aid``).
    """

    def __init__(
        self,
        perturber: Any,
        schedule: Schedule,
        *,
        open_source: Callable[[], Any],
        capture: Any,
        send: Callable[[List[PerturbedFrame]], None],
        counters: Counters,
        watchdog: Watchdog,
        note: Callable[[str, str], None],
        max_latency_s: float,
        recheck_s: float,
        frames: Optional[int] = None,
        camera_aid: Optional[Callable[[np.ndarray], None]] = None,
        turn: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._camera_aid, self._turn = camera_aid, turn
        self._perturber, self._schedule = perturber, schedule
        self._open_source, self._capture, self._send = open_source, capture, send
        self._counters, self._watchdog, self._note = counters, watchdog, note
        self._max_latency_s, self._recheck_s, self._frames = max_latency_s, recheck_s, frames
        self._clock = clock
        self._newest = Newest(schedule.backlog)
        self._stopping = threading.Event()
        self._ended = threading.Event()  # no more frames come from the capturing thread
        self._failed: Optional[Exception] = None
        self._made = Handoff()  # the set that is sent while the next is computed
        spec = perturber.manifest.input
        low = np.broadcast_to(np.asarray(0 if spec.low is None else spec.low), spec.shape)
        self._blank = np.array(low, np.dtype(spec.dtype))
        self._last: List[Optional[PerturbedFrame]] = []
        self._broken_off = False
        self._ended_tracks: Any = collections.deque()  # (when the frame came that ended it, track)
        self._promises = perturber.promises
        self._taking = _Tokens(schedule.tick_s, clock(), max(2.0, schedule.backlog)) if self._promises else None
        self._owed: "queue.Queue[Optional[_FrameSet]]" = queue.Queue()  # sets of a promise, until they are sent
        self._given_up = threading.Event()  # no more of them are

    def flat(self) -> List[PerturbedFrame]:
        """The set of an empty scene, emitted at ticks without a newer one. Raises ``DeviceFailed``."""
        try:
            frames = [self._perturber.perturb(self._blank_frame()) for _ in range(self._schedule.slots)]
            self._last = list(frames)
            self._perturber.restart()  # a blank frame is of no track and begins no period
            return frames
        except FrameDropped as drop:
            reason = drop.reason
        raise DeviceFailed("a blank frame was dropped ({}): this bundle does not run here".format(reason))

    def stop(self) -> None:
        """Finish the current frame and return from ``run``."""
        self._stopping.set()
        self._given_up.set()

    def run(self, source: Any) -> None:
        """Perturb the frames of ``source``, opening it again after a fault; returns at its end or after ``stop``.

        Raises ``PrivacyStop``, ``BrokenPipeError``, or a ``SourceFailed`` that reopening cannot cure.
        """
        capture = threading.Thread(target=self._capture_frames, args=(source,), name="capture", daemon=True)
        send = threading.Thread(target=self._send_sets, name="send", daemon=True)
        answer = threading.Thread(target=self._send_owed, name="answer", daemon=True)
        self._beat()
        for thread in [capture, send] + [answer] * self._promises:
            thread.start()
        try:
            self._infer_sets()
        except BaseException:
            self._given_up.set()
            raise
        finally:
            self._stopping.set()
            while not self._made.put(None, _WAIT_S) and self._failed is None:
                pass
            send.join()
            capture.join(1.0)
            for left in iter(lambda: self._newest.take(0), None):
                if self._promises:
                    left.erase()
                else:
                    self._drop(left, "stopped")
            self._owed.put(None)
            while answer.is_alive():
                self._watchdog.beat("perturb")
                answer.join(_WAIT_S)
        if self._failed is not None:
            raise self._failed

    def _beat(self) -> None:
        """The heartbeat of the capturing thread: a source may need several ticks (a scan for access points does)."""
        self._watchdog.beat("capture", 3 * self._schedule.tick_s)

    # capturing

    def _capture_frames(self, source: Any) -> None:
        backoff = Backoff(most_s=REOPEN_MOST_S)
        try:
            while not self._stopping.is_set():
                before = self._counters.get("frames-in")
                try:
                    if source is None:
                        source = self._open()
                    if self._drain(source):
                        return
                except DeviceFailed as error:
                    if not _can_reopen(error):
                        raise
                    word = type(error).__name__.lower()
                    self._counters.add("fault:" + word)
                    self._note(word, str(error))
                _close(source)
                source = None
                if self._counters.get("frames-in") > before:
                    backoff.reset()
                self._pause(backoff.next_s())
        except Exception as error:
            self._failed = error
        finally:
            _close(source)
            self._watchdog.rest("capture")
            self._ended.set()
            self._newest.end()

    def _open(self) -> Any:
        self._beat()
        source = self._open_source()
        self._counters.add("source-opened")
        self._broken_off = True
        return source

    def _drain(self, source: Any) -> bool:
        """Preprocess every frame; True at the end of the source, False after an unexpected error of its driver."""
        source.total = self._promises
        source.beat = self._beat  # a window of a slow sensor takes longer than a frame of a camera
        while not self._stopping.is_set():
            self._beat()
            if self._frames is not None and self._counters.get("frames-in") >= self._frames:
                return True
            try:
                frame = source.next()
            except FrameDropped as drop:
                self._counters.add("frames-in")
                self._counters.add(DROP + drop.reason)
                continue
            except EdgeVeilError:
                raise
            except Exception as error:
                # A driver's own error may quote the frame.
                self._counters.add("fault:error")
                self._note("error", "the source failed: {}; it is reopened".format(describe(error)))
                return False
            if frame is None:
                return True
            self._counters.add("frames-in")
            entered = self._preprocess(frame)
            if entered is None:
                continue
            if self._promises:
                self._owed.put(entered)
            old = self._newest.put(entered)
            if old is not None and self._promises:
                old.erase()  # the model has no time for it; it is sent all the same
            elif old is not None:
                self._drop(old, "newer-frame")
        return True

    def _preprocess(self, frame: RawFrame) -> Optional[_FrameSet]:
        """Crop and preprocess; None for a dropped frame. Empty slots cost the same work as occupied ones."""
        came_s = self._clock()
        if self._broken_off:
            # People seen before the fault are gone.
            self._broken_off = False
            self._capture.restart()
        one = _FrameSet(frame, came_s)
        try:
            crops = dict(self._capture.frames(frame))
        except FrameDropped as drop:
            self._drop(one, drop.reason)
            return None
        self._ended_tracks.extend((came_s, track) for track in self._capture.ended)
        if self._taking is not None:
            reasons = [self._perturber.no_reading(crop) for crop in crops.values()]
            reason = next(filter(None, reasons), "newer-frame" if self._taking.wait_s(came_s) > 0 else "")
            if reason:
                self._drop(one, reason)
                return None
            self._taking.take()
        for slot in range(self._schedule.slots):
            one.occupied.append(slot in crops)
            one.in_flight.append(self._perturber.preprocess(crops.get(slot) or self._blank_frame()))
        return one

    def _pause(self, seconds: float) -> None:
        until = self._clock() + seconds
        while not self._stopping.is_set() and self._clock() < until:
            self._beat()
            self._stopping.wait(min(_WAIT_S, max(until - self._clock(), 0.0)))

    # perturbing

    def _infer_sets(self) -> None:
        # A set is handed off just before inference of the next one, which releases the GIL for the sending thread. If
        # there is no next one yet, this thread sends it itself: to wake another one costs more than to send.
        done: Optional[_FrameSet] = None
        tokens = _Tokens(self._schedule.tick_s, self._clock())
        checked = self._clock()
        while not self._stopping.is_set():
            self._watchdog.beat("perturb")
            self._turn()
            now = self._clock()
            wait_s = 0.0 if self._promises else tokens.wait_s(now)  # of a promise they were taken so
            if now - checked >= self._recheck_s:
                self._perturber.recheck()
                self._counters.add("rechecks")
                checked = self._clock()
            if wait_s > 0:
                self._finish(done)
                done = None
                self._stopping.wait(min(wait_s, _WAIT_S))
                continue
            one = self._newest.take(0)
            if one is None:
                self._finish(done)
                done = None
                self._perturber.draw_ahead()
                one = self._newest.take(_WAIT_S)
            if one is not None:
                tokens.take()
                self._hand_off(done)
                self._infer(one)
                done = one
            elif self._ended.is_set():
                return
        self._hand_off(done)

    def _infer(self, one: _FrameSet) -> None:
        started = self._clock()
        for in_flight in one.in_flight:
            self._perturber.infer(in_flight)
        if not self._promises:
            self._forget_tracks(one)
        one.busy_us = int((self._clock() - started) * 1e6)

    def _forget_tracks(self, one: _FrameSet) -> None:
        """Forget tracks that ended in or before this frame: in later frames their numbers belong to other people."""
        while self._ended_tracks and self._ended_tracks[0][0] <= one.came_s:
            self._perturber.forget(self._ended_tracks.popleft()[1])

    def _finish(self, one: Optional[_FrameSet]) -> None:
        """Send a set when no other one waits for the model, in order. A promise's reports have their own times."""
        if one is None or self._promises or not self._made.idle:
            self._hand_off(one)
        else:
            self._postprocess(one)

    def _hand_off(self, one: Optional[_FrameSet]) -> None:
        """Pass a set to the sending thread, which may wait for a slow reader, or has ended without one."""
        while one is not None and not self._made.put(one, _WAIT_S) and self._failed is None:
            self._watchdog.beat("perturb")

    # sending

    def _send_sets(self) -> None:
        try:
            while True:
                one = self._made.get()
                if one is None:
                    return
                if self._promises:
                    self._report(one)
                else:
                    self._postprocess(one)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._failed = error
        self.stop()

    def _report(self, one: _FrameSet) -> None:
        """Make the reports of a set of a promise, unless it is too late for them."""
        self._counters.add("busy-us", one.busy_us)
        self._counters.set("last-busy-us", one.busy_us)
        with one.closing:
            if not one.is_closed:
                one.reports = [self._perturber.postprocess(in_flight) for in_flight in one.in_flight]
        if self._camera_aid is not None:
            self._camera_aid(one.frame._data)
        one.erase()

    def _send_owed(self) -> None:
        """Send each set of a promise when it is due."""
        try:
            for one in iter(self._owed.get, None):
                self._send_when_due(one)
        except Exception as error:
            self._fail(error)

    def _send_when_due(self, one: _FrameSet) -> None:
        due_s = one.came_s + self._max_latency_s
        while not self._given_up.is_set() and self._clock() < due_s:
            self._given_up.wait(min(_WAIT_S, max(due_s - self._clock(), 0.0)))
        if self._given_up.is_set():
            self._drop(one, "stopped")
            return
        with one.closing:
            one.is_closed = True
            reports = one.reports or [self._perturber.late(in_flight) for in_flight in one.in_flight]
        self._forget_tracks(one)
        chosen = [is_there or self._schedule.on_fault == "flat" for is_there in one.occupied]
        outgoing: List[Any] = [new if use else old for new, use, old in zip(reports, chosen, self._last)]
        self._last = list(outgoing)
        self._send(outgoing)
        count_latency(self._counters, self._clock() - one.came_s)
        self._counters.add("sets-out")

    def _postprocess(self, one: _FrameSet) -> None:
        """Postprocess and send a set, or drop the frame."""
        self._counters.add("busy-us", one.busy_us)
        self._counters.set("last-busy-us", one.busy_us)
        outgoing: List[Any] = list(self._last)
        reason, came = "", False
        for slot, in_flight in enumerate(one.in_flight):
            try:
                perturbed = self._perturber.postprocess(in_flight)
            except FrameDropped as drop:
                if one.occupied[slot]:
                    reason = drop.reason
                    self._counters.add("crop-" + DROP + drop.reason)
                continue
            came = came or one.occupied[slot]
            if one.occupied[slot] or self._schedule.on_fault == "flat":
                outgoing[slot] = perturbed
        # A frame without people is sent; a frame in which every crop failed is not.
        reason = "" if came or not any(one.occupied) else reason
        if not reason and self._clock() - one.came_s > self._max_latency_s:
            reason = "late"
        if reason:
            self._drop(one, reason)
            return
        if self._camera_aid is not None:
            self._camera_aid(one.frame._data)
        one.erase()
        self._last = outgoing
        self._send(outgoing)
        count_latency(self._counters, self._clock() - one.came_s)
        self._counters.add("sets-out")

    def _blank_frame(self) -> RawFrame:
        return RawFrame(self._blank, 0)

    def _drop(self, one: _FrameSet, reason: str) -> None:
        self._counters.add(DROP + reason)
        one.erase()


def _can_reopen(error: DeviceFailed) -> bool:
    """Whether reopening the source may help: a missing library stays missing."""
    return isinstance(error, SourceFailed) and not isinstance(error, Unsupported)


def _close(source: Any) -> None:
    if source is not None:
        with contextlib.suppress(Exception):  # it has failed already; the error may quote a frame
            source.close()
