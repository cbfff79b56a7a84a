"""The loop of a live source: one thread captures, another perturbs, and between them is place for one frame.

The newest frame wins: one that nobody has taken when the next comes is let fall and counted. So the camera is never
held up, nothing grows, and frames per second come near the slower of camera and model (inference lets Python's lock
go). This runs inside; what it hands on are sets, one ``PerturbedFrame`` for each slot, and when they leave is for the
outside to say (``outside.py``).
"""

import collections
import random
import threading
import time
from typing import Any, Callable, List, Optional, Tuple

import numpy as np

from edge_runtime.counters import DROP, Counters
from edge_runtime.errors import DeviceFailed, EdgeVeilError, FrameDropped, describe
from edge_runtime.frames import PerturbedFrame, RawFrame
from edge_runtime.schedule import Schedule
from edge_runtime.watchdog import Watchdog

REOPEN_S, REOPEN_MOST_S = 0.5, 30.0  # how long a source that broke down is left alone: at first, and at most
_WAIT_S = 0.25  # how long a thread sleeps before it looks whether it should end


class Latest(object):
    """Place for one frame. ``put`` never waits; what it pushes out is handed back."""

    def __init__(self) -> None:
        self._held: Any = collections.deque(maxlen=1)
        self._came = threading.Condition()

    def put(self, item: Any) -> Any:
        """Hold ``item``; returns what was held until now, or None."""
        with self._came:
            old = self._held.pop() if self._held else None
            self._held.append(item)
            self._came.notify()
        return old

    def take(self, timeout_s: float) -> Any:
        """What is held, or None where nothing came in time."""
        with self._came:
            if not self._held:
                self._came.wait(timeout_s)
            return self._held.pop() if self._held else None


class LiveLoop(object):
    """From a source that may break down to sets of perturbed frames. ``run`` until the source ends or ``stop``.

    ``open_source`` opens it (and opens it again); ``capture`` makes slots and frames of what it gives; ``send`` takes
    one list of ``PerturbedFrame``, a place for each slot. ``note`` is told of faults: a word and a sentence.
    ``recheck`` is called every ``recheck_s`` between two frames and raises where the golden vectors fail; ``look`` is
    shown raw readings while a person aims the camera (``aim.py``).
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
        look: Optional[Callable[[np.ndarray], None]] = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._perturber, self._schedule = perturber, schedule
        self._open_source, self._capture, self._send = open_source, capture, send
        self._counters, self._watchdog, self._note = counters, watchdog, note
        self._max_latency_s, self._recheck_s, self._recheck, self._frames = max_latency_s, recheck_s, recheck, frames
        self._clock = clock
        self._latest = Latest()
        self._stopping = threading.Event()
        self._ended = threading.Event()  # the capturing thread gives no more
        self._failed: Optional[EdgeVeilError] = None
        spec = perturber.manifest["input"]
        low = np.broadcast_to(np.asarray(0 if spec["low"] is None else spec["low"]), tuple(spec["shape"]))
        self._blank = np.array(low, np.dtype(spec["dtype"]))
        self._last: List[Optional[PerturbedFrame]] = []
        self._broken_off = False

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

        Raises ``PrivacyStop``, or the ``SourceFailed`` that no opening again can cure.
        """
        thread = threading.Thread(target=self._capturing, args=(source,), name="capture", daemon=True)
        self._watchdog.beat("capture", self._patience_s())
        thread.start()
        try:
            self._perturbing()
        finally:
            self._stopping.set()
            thread.join(1.0)
            left = self._latest.take(0)
            if left is not None:
                self._let_fall(left[0], "stopped")
        if self._failed is not None:
            raise self._failed

    def _patience_s(self) -> float:
        """A source may take some ticks for a frame (a scan for access points takes seconds)."""
        return 3 * self._schedule.tick_s

    # capturing

    def _capturing(self, source: Any) -> None:
        pause_s = REOPEN_S
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
                        pause_s = REOPEN_S
                self._rest(pause_s * random.uniform(0.5, 1.5))  # noqa: S311 - it spreads load, it hides nothing
                pause_s = min(2 * pause_s, REOPEN_MOST_S)
        except EdgeVeilError as error:
            self._failed = error
        finally:
            _closed(source)
            self._watchdog.rest("capture")
            self._ended.set()

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
            old = self._latest.put((frame, self._clock()))
            if old is not None:
                self._let_fall(old[0], "newer-frame")
        return True

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
                self._stopping.wait(min((1 - tokens) * self._schedule.tick_s, _WAIT_S))
                continue
            item = self._latest.take(_WAIT_S)
            if item is not None:
                tokens -= 1
                self._one(*item)
            elif self._ended.is_set():
                return

    def _one(self, frame: RawFrame, came_s: float) -> None:
        started = self._clock()
        made, reason = self._attempt(frame)
        spent = self._clock() - started
        self._counters.add("busy-us", int(spent * 1e6))
        self._counters.set("last-busy-us", int(spent * 1e6))
        if not reason and self._clock() - came_s > self._max_latency_s:
            reason = "late"
        if reason:
            self._let_fall(frame, reason)
            return
        if self._look is not None:
            self._look(frame._data)
        frame.erase()
        self._last = made
        self._send(made)
        self._counters.set("last-latency-us", int((self._clock() - came_s) * 1e6))
        self._counters.add("sets-out")

    def _attempt(self, frame: RawFrame) -> Tuple[List[Any], str]:
        """A set, or a reason. As much is computed for an empty scene as for a full one."""
        places: List[Any] = [None] * self._schedule.slots
        reason, came = "", 0
        if self._broken_off:
            # Whoever was there before has gone.
            self._broken_off = False
            self._capture.restart()
        try:
            crops = self._capture.frames(frame)
        except FrameDropped as drop:
            return [], drop.reason
        for slot, crop in crops:
            places[slot] = crop
        made = list(self._last)
        for slot, crop in enumerate(places):
            try:
                perturbed = self._perturber.perturb(self._blank_frame() if crop is None else crop)
            except FrameDropped as drop:
                if crop is not None:
                    reason = drop.reason
                    self._counters.add("crop-" + DROP + drop.reason)
                continue
            came += crop is not None
            if crop is not None or self._schedule.on_fault == "flat":
                made[slot] = perturbed
            if crop is not None and crop is not frame:
                crop.erase()
        for track in self._capture.ended:
            self._perturber.forget(track)
        # A frame in which nobody is to be seen is as good as any; one whose every crop failed is not.
        return made, reason if crops and not came else ""

    def _blank_frame(self) -> RawFrame:
        return RawFrame(self._blank, 0)

    def _let_fall(self, frame: RawFrame, reason: str) -> None:
        self._counters.add(DROP + reason)
        frame.erase()


def _curable(error: DeviceFailed) -> bool:
    """Whether opening the source again may help: a library that is missing stays so."""
    from edge_runtime.sources.base import SourceFailed, Unsupported

    return isinstance(error, SourceFailed) and not isinstance(error, Unsupported)


def _closed(source: Any) -> None:
    if source is not None:
        try:
            source.close()
        except Exception:  # noqa: S110 - it is gone already; its text may hold what it read
            pass
