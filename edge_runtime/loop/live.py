"""The loop of a live source, in three threads: one captures, one runs the model, one sends.

Between the first two is place for one frame, and the newest wins: one that nobody has taken when the next comes is let
fall and counted. So the camera is never held up and nothing grows. What comes before the model (cropping, scaling) is
done by whoever captures and what comes after it by whoever sends, so that frames per second come near the slower of
camera and model (inference lets Python's lock go). This runs inside; what it hands on are sets, one ``PerturbedFrame``
for each slot, and when they leave is for the outside to say (``outside.py``).
"""

import collections
import threading
import time
from typing import Any, Callable, List, Optional

import numpy as np

from edgeveil.edge_runtime.backoff import Backoff
from edgeveil.edge_runtime.errors import DeviceFailed, EdgeVeilError, FrameDropped, SourceFailed, Unsupported, describe
from edgeveil.edge_runtime.frames import PerturbedFrame, RawFrame
from edgeveil.edge_runtime.ipc.counters import DROP, Counters
from edgeveil.edge_runtime.ipc.schedule import Schedule
from edgeveil.edge_runtime.loop.handoff import Baton, Latest
from edgeveil.edge_runtime.sandbox.watchdog import Watchdog

REOPEN_MOST_S = 30.0  # how long a source that broke down is left alone at most
_WAIT_S = 0.25  # how long a thread sleeps before it looks whether it should end


class _Set(object):
    """One sensor frame on its way: a flight for each slot, and whether somebody is in it."""

    __slots__ = ("busy_us", "came_s", "flights", "frame", "taken")

    def __init__(self, frame: RawFrame, came_s: float) -> None:
        self.frame, self.came_s, self.busy_us = frame, came_s, 0
        self.flights: List[Any] = []
        self.taken: List[bool] = []

    def erase(self) -> None:
        """Make everything that was read zeros, where its memory is ours."""
        for flight, taken in zip(self.flights, self.taken):
            # In a place where nobody was is the blank frame, which is used again.
            if taken:
                flight.erase()
        self.frame.erase()


class LiveLoop(object):
    """From a source that may break down to sets of perturbed frames. ``run`` until the source ends or ``stop``.

    ``open_source`` opens it (and opens it again); ``capture`` makes slots and frames of what it gives; ``send`` takes
    one list of ``PerturbedFrame``, a place for each slot. ``note`` is told of faults: a word and a sentence.
    ``recheck`` is called every ``recheck_s`` between two frames and raises where the golden vectors fail;
    ``camera_aid`` is given raw readings while a person aims the camera.
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
        recheck: Callable[[], None],
        frames: Optional[int] = None,
        camera_aid: Optional[Callable[[np.ndarray], None]] = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._camera_aid = camera_aid
        self._perturber, self._schedule = perturber, schedule
        self._open_source, self._capture, self._send = open_source, capture, send
        self._counters, self._watchdog, self._note = counters, watchdog, note
        self._max_latency_s, self._recheck_s, self._recheck, self._frames = max_latency_s, recheck_s, recheck, frames
        self._clock = clock
        self._latest = Latest()
        self._stopping = threading.Event()
        self._ended = threading.Event()  # the capturing thread gives no more
        self._failed: Optional[Exception] = None
        self._made = Baton()  # the set that leaves while the next is made
        spec = perturber.manifest["input"]
        low = np.broadcast_to(np.asarray(0 if spec["low"] is None else spec["low"]), tuple(spec["shape"]))
        self._blank = np.array(low, np.dtype(spec["dtype"]))
        self._last: List[Optional[PerturbedFrame]] = []
        self._broken_off = False
        self._ended_tracks: Any = collections.deque()  # (when the frame came that showed it, track)

    def flat(self) -> List[PerturbedFrame]:
        """A set as an empty scene gives it, for the ticks at which there is nothing else. Raises ``DeviceFailed``."""
        try:
            made = [self._perturber.perturb(self._blank_frame()) for _ in range(self._schedule.slots)]
            self._last = list(made)
            return made
        except FrameDropped as drop:
            reason = drop.reason
        raise DeviceFailed("a blank frame was dropped ({}): this bundle does not run here".format(reason))

    def stop(self) -> None:
        """Finish the frame in hand and end."""
        self._stopping.set()

    def run(self, source: Any) -> None:
        """Perturb what ``source`` gives, opening it again where it breaks down; returns at its end or after ``stop``.

        Raises ``PrivacyStop``, ``BrokenPipeError``, or the ``SourceFailed`` that no opening again can cure.
        """
        capture = threading.Thread(target=self._capturing, args=(source,), name="capture", daemon=True)
        send = threading.Thread(target=self._sending, name="send", daemon=True)
        self._watchdog.beat("capture", self._patience_s())
        capture.start()
        send.start()
        try:
            self._perturbing()
        finally:
            self._stopping.set()
            while not self._made.put(None, _WAIT_S) and self._failed is None:
                pass
            send.join()
            capture.join(1.0)
            left = self._latest.take(0)
            if left is not None:
                self._let_fall(left, "stopped")
        if self._failed is not None:
            raise self._failed

    def _patience_s(self) -> float:
        """A source may take some ticks for a frame (a scan for access points takes seconds)."""
        return 3 * self._schedule.tick_s

    # capturing

    def _capturing(self, source: Any) -> None:
        backoff = Backoff(most_s=REOPEN_MOST_S)
        try:
            while not self._stopping.is_set():
                if source is None:
                    source = self._opened()
                if source is not None:
                    before = self._counters.get("frames-in")
                    if self._drain(source):
                        return
                    _closed(source)
                    source = None
                    if self._counters.get("frames-in") > before:
                        backoff.reset()
                self._rest(backoff.next_s())
        except Exception as error:
            self._failed = error
        finally:
            _closed(source)
            self._watchdog.rest("capture")
            self._ended.set()
            self._latest.end()

    def _opened(self) -> Any:
        self._watchdog.beat("capture", self._patience_s())
        try:
            source = self._open_source()
            self._counters.add("source-opened")
            self._broken_off = True
            return source
        except DeviceFailed as error:
            if not _curable(error):
                raise
            self._fault(error)
            return None

    def _drain(self, source: Any) -> bool:
        """Hand on every frame; True at the end of the source, False where it broke down and may be opened again."""
        while not self._stopping.is_set():
            self._watchdog.beat("capture", self._patience_s())
            if self._frames is not None and self._counters.get("frames-in") >= self._frames:
                return True
            try:
                frame = source.next()
            except FrameDropped as drop:
                self._counters.add("frames-in")
                self._counters.add(DROP + drop.reason)
                continue
            except DeviceFailed as error:
                if not _curable(error):
                    raise
                self._fault(error)
                return False
            except EdgeVeilError:
                raise
            except Exception as error:
                # A driver's own error may quote what it was reading.
                self._counters.add("fault:error")
                self._note("error", "the source failed: {}; it is opened again".format(describe(error)))
                return False
            if frame is None:
                return True
            self._counters.add("frames-in")
            entered = self._entered(frame)
            old = None if entered is None else self._latest.put(entered)
            if old is not None:
                self._let_fall(old, "newer-frame")
        return True

    def _entered(self, frame: RawFrame) -> Optional[_Set]:
        """What comes before the model; None where the frame was dropped. As much is done for nobody as for many."""
        came_s = self._clock()
        if self._broken_off:
            # Whoever was there before has gone.
            self._broken_off = False
            self._capture.restart()
        one = _Set(frame, came_s)
        try:
            crops = dict(self._capture.frames(frame))
        except FrameDropped as drop:
            self._let_fall(one, drop.reason)
            return None
        self._ended_tracks.extend((came_s, track) for track in self._capture.ended)
        for slot in range(self._schedule.slots):
            one.taken.append(slot in crops)
            one.flights.append(self._perturber.begin(crops.get(slot) or self._blank_frame()))
        return one

    def _fault(self, error: DeviceFailed) -> None:
        word = type(error).__name__.lower()
        self._counters.add("fault:" + word)
        self._note(word, str(error))

    def _rest(self, seconds: float) -> None:
        until = self._clock() + seconds
        while not self._stopping.is_set() and self._clock() < until:
            self._watchdog.beat("capture", self._patience_s())
            self._stopping.wait(min(_WAIT_S, max(until - self._clock(), 0.0)))

    # perturbing

    def _perturbing(self) -> None:
        # A set is handed on just before the model begins with the next one, when Python's lock is about to be free for
        # whoever sends; or at once where there is no next one yet.
        done: Optional[_Set] = None
        tokens, since = 1.0, self._clock()
        checked = since
        while not self._stopping.is_set():
            self._watchdog.beat("perturb")
            now = self._clock()
            # No more sets than ticks, with one in hand for a camera that is not quite regular.
            tokens, since = min(tokens + (now - since) / self._schedule.tick_s, 2.0), now
            if now - checked >= self._recheck_s:
                self._recheck()
                self._counters.add("rechecks")
                checked = self._clock()
            if tokens < 1:
                self._hand_on(done)
                done = None
                self._stopping.wait(min((1 - tokens) * self._schedule.tick_s, _WAIT_S))
                continue
            one = self._latest.take(0)
            if one is None:
                self._hand_on(done)
                done = None
                one = self._latest.take(_WAIT_S)
            if one is not None:
                tokens -= 1
                self._hand_on(done)
                self._infer(one)
                done = one
            elif self._ended.is_set():
                return
        self._hand_on(done)

    def _infer(self, one: _Set) -> None:
        started = self._clock()
        for flight in one.flights:
            self._perturber.infer(flight)
        # Tracks that ended in this frame or before it: in a frame that is taken later they are somebody else's.
        while self._ended_tracks and self._ended_tracks[0][0] <= one.came_s:
            self._perturber.forget(self._ended_tracks.popleft()[1])
        one.busy_us = int((self._clock() - started) * 1e6)

    def _hand_on(self, one: Optional[_Set]) -> None:
        """To the sending thread, which may be waiting for a slow reader, and has ended where there is none."""
        while one is not None and not self._made.put(one, _WAIT_S) and self._failed is None:
            self._watchdog.beat("perturb")

    # sending

    def _sending(self) -> None:
        try:
            while True:
                one = self._made.get()
                if one is None:
                    return
                self._left(one)
        except Exception as error:
            self._failed = error
            self._stopping.set()

    def _left(self, one: _Set) -> None:
        """What comes after the model, and out with it; or the frame is dropped."""
        self._counters.add("busy-us", one.busy_us)
        self._counters.set("last-busy-us", one.busy_us)
        made: List[Any] = list(self._last)
        reason, came = "", False
        for slot, flight in enumerate(one.flights):
            try:
                perturbed = self._perturber.end(flight)
            except FrameDropped as drop:
                if one.taken[slot]:
                    reason = drop.reason
                    self._counters.add("crop-" + DROP + drop.reason)
                continue
            came = came or one.taken[slot]
            if one.taken[slot] or self._schedule.on_fault == "flat":
                made[slot] = perturbed
        # A frame in which nobody is to be seen is as good as any; one whose every crop failed is not.
        reason = "" if came or not any(one.taken) else reason
        if not reason and self._clock() - one.came_s > self._max_latency_s:
            reason = "late"
        if reason:
            self._let_fall(one, reason)
            return
        if self._camera_aid is not None:
            self._camera_aid(one.frame._data)
        one.erase()
        self._last = made
        self._send(made)
        self._counters.set("last-latency-us", int((self._clock() - one.came_s) * 1e6))
        self._counters.add("sets-out")

    def _blank_frame(self) -> RawFrame:
        return RawFrame(self._blank, 0)

    def _let_fall(self, one: _Set, reason: str) -> None:
        self._counters.add(DROP + reason)
        one.erase()


def _curable(error: DeviceFailed) -> bool:
    """Whether opening the source again may help: a library that is missing stays so."""
    return isinstance(error, SourceFailed) and not isinstance(error, Unsupported)


def _closed(source: Any) -> None:
    if source is not None:
        try:
            source.close()
        except Exception:  # noqa: S110 - it is gone already; its text may hold what it read
            pass
