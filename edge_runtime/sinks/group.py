"""Several sinks as one: each gets every frame, even when others fail."""

import contextlib
import os
import re
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.frames import PerturbedFrame
from edgeveil.edge_runtime.sinks.base import Delivery, Sink
from edgeveil.edge_runtime.sinks.count_report import CountReport
from edgeveil.edge_runtime.sinks.uri import size_bytes
from edgeveil.edge_runtime.util import atomic
from edgeveil.edge_runtime.util.atomic import WriteFailed, writing

CALM_S = 10.0  # a spool that is full now and then is one failure
# Called with a sink's name, its error (None: it works again), how many frames it lost, and whether it worked before.
OnFailure = Callable[[str, Optional[DeviceFailed], int, bool], None]


class SinkGroup(Sink):
    """Sinks by name. ``live`` where one of them is.

    With ``on_failure``, a sink's failure or recovery is reported to it and the others continue; without it, the first
    error is raised after all sinks got their frames. ``PrivacyStop`` is always raised at once. A sink that dropped
    what it took before has failed too.
    """

    def __init__(
        self,
        sinks: Mapping[str, Sink],
        on_failure: Optional[OnFailure] = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sinks = dict(sinks)
        self._on_failure, self._clock = on_failure, clock
        self._failing: Dict[str, float] = {}  # by name, until when it is not said to work again
        self._dropped: Dict[str, Dict[str, int]] = {}  # by name and reason, as they were last looked at
        self._taken: Dict[str, int] = {}
        self._lost: Dict[str, int] = {}

    @property
    def live(self) -> bool:  # type: ignore[override]  # of sinks that may be opened later
        """Whether one of them is."""
        return any(sink.live for sink in self.sinks.values())

    def _write(self, frame: PerturbedFrame) -> None:
        self._each(lambda sink: sink.write(frame), 1)

    def write_set(self, frames: Sequence[PerturbedFrame]) -> None:
        """Write the frames of one tick and flush them."""

        def write(sink: Sink) -> None:
            for frame in frames:
                sink.write(frame)
            sink.flush()

        self._each(write, len(frames))

    def _write_count(self, report: CountReport) -> None:
        self._each(lambda sink: sink.write_count(report), 0)

    def announce(self, state: str, tick_ns: Optional[int]) -> None:
        """See ``Sink``."""
        for sink in self.sinks.values():
            sink.announce(state, tick_ns)

    def shift(self, document: Dict[str, Any]) -> None:
        """See ``Sink``."""
        for sink in self.sinks.values():
            sink.shift(document)

    def releases(self, running: str, offered: str) -> None:
        """See ``Sink``."""
        for sink in self.sinks.values():
            sink.releases(running, offered)

    def local(self, counters: Dict[str, int], levels: Dict[str, int], latency_ms: Optional[float] = None) -> None:
        """See ``Sink``."""
        for sink in self.sinks.values():
            sink.local(counters, levels, latency_ms)

    def counts_by_sink(self) -> Dict[str, Dict[str, int]]:
        """The counts of each sink, by the sink's name."""
        return {name: sink.counts() for name, sink in self.sinks.items()}

    def receivers(self) -> Dict[str, str]:
        """Of each sink to a network, by its name: "ok", or its problem."""
        return {name: sink.problem() or "ok" for name, sink in self.sinks.items() if getattr(sink, "network", False)}

    def deliveries(self) -> Dict[str, Delivery]:
        """What became of the records of each sink, by the sink's name."""
        return {
            name: sink.delivery() or Delivery(self._taken.get(name, 0), 0, self._lost.get(name, 0))
            for name, sink in self.sinks.items()
        }

    def flush(self) -> None:
        """See ``Sink``."""
        self._each(lambda sink: sink.flush(), 0)

    def close(self) -> None:
        """Close all at the same time: network sinks may take a while to drain. Raises the first error."""
        errors: List[BaseException] = []

        def close(sink: Sink) -> None:
            try:
                sink.close()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=close, args=(sink,), daemon=True) for sink in self.sinks.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def discard(self) -> None:
        """Discard in each, even when others fail. Raises the first error."""
        first: Optional[Exception] = None
        for sink in self.sinks.values():
            try:
                sink.discard()
            except Exception as error:
                first = first or error
        if first is not None:
            raise first

    def _each(self, call: Callable[[Sink], None], frames: int) -> None:
        first: Optional[DeviceFailed] = None
        for name, sink in self.sinks.items():
            try:
                call(sink)
            except DeviceFailed as error:
                first = first or error
                self._lost[name] = self._lost.get(name, 0) + frames
                self._failed(name, error, frames)
            else:
                self._taken[name] = self._taken.get(name, 0) + frames
                self._look_at_drops(name, sink)
        if first is not None and self._on_failure is None:
            raise first

    def _failed(self, name: str, error: DeviceFailed, frames: int, calm_s: float = 0.0) -> None:
        if self._on_failure is not None:
            self._on_failure(name, error, frames, name not in self._failing)
        self._failing[name] = self._clock() + calm_s

    def _look_at_drops(self, name: str, sink: Sink) -> None:
        before, now = self._dropped.get(name, {}), sink.dropped()
        lost = {why: count - before.get(why, 0) for why, count in now.items() if count > before.get(why, 0)}
        self._dropped[name] = now
        if lost:
            self._failed(name, DeviceFailed("records were dropped: " + "; ".join(lost)), sum(lost.values()), CALM_S)
        elif name in self._failing and self._clock() >= self._failing[name]:
            del self._failing[name]
            if self._on_failure is not None:
                self._on_failure(name, None, 0, False)


# ``keep=30`` or ``keep=10GB``: how many closed parts of a rotating sink stay; the oldest go first.


PART = re.compile(r"part-([0-9]{8})(?:\.[a-z0-9]+)?")


class Keep(NamedTuple):
    """The most parts, or the most bytes of them all together; one of the two is None."""

    parts: Optional[int]
    size: Optional[int]


def retention(text: str) -> Keep:
    """``"30"`` or ``"10GB"``; raises ``BadInput``."""
    if re.fullmatch("[1-9][0-9]{0,7}", text):
        return Keep(int(text), None)
    if text.endswith("B"):
        return Keep(None, size_bytes(text))
    raise BadInput("expected a number of parts or a size, as keep=30 or keep=10GB; got {!r}".format(text))


def parts_to_remove(folder: str, keep: Keep, open_part: str) -> List[str]:
    """The paths of the parts that have to go, the oldest first. ``open_part`` is written to and counts as none."""
    names = sorted(name for name in os.listdir(folder) if PART.fullmatch(name))
    closed = [os.path.join(folder, name) for name in names if os.path.join(folder, name) != open_part]
    if keep.parts is not None:
        return closed[: max(0, len(closed) - keep.parts)]
    held, gone = sum(_size(path) for path in closed), []
    for path in closed[:-1]:  # the newest stays, whatever its size
        if held <= (keep.size or 0):
            break
        held -= _size(path)
        gone.append(path)
    return gone


def _size(path: str) -> int:
    """Bytes of a part, which is a file or a folder of files."""
    names = [os.path.join(path, name) for name in os.listdir(path)] if os.path.isdir(path) else [path]
    return sum(os.stat(name).st_size for name in names)


# ``npz:DIR?rotate=100MB,1h``: one part after the other, for streams without an end.
#
# A part is closed when it would exceed the size, is older than the time, or the disk is full. Closed parts are whole
# and never changed; ``keep`` says how many stay, all where it is not given. While the disk is full, every frame is
# refused with one sentence and counted.


# The longest time between two self-tests: at a privacy stop, parts closed since then may reveal too much.
SUSPECT_S = 3600.0


class RotatingSink(Sink):
    """``make(path)`` opens the sink of one part, ``suffix`` ends its name.

    ``frame_bytes`` is the size of a frame before compression; ``twice`` says that closing a part needs its size again
    on the disk.
    """

    def __init__(
        self,
        folder: str,
        make: Callable[[str], Sink],
        *,
        suffix: str,
        limits: Tuple[Optional[int], Optional[float]],
        frame_bytes: int,
        twice: bool = False,
        keep: Optional[Keep] = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._make, self._suffix, self._twice, self._keep = folder, make, suffix, twice, keep
        (self._most_bytes, self._most_s), self._frame_bytes, self._clock = limits, frame_bytes, clock
        if os.path.exists(folder) and not os.path.isdir(folder):
            raise BadInput("expected a folder for the parts at {}; there is a file".format(folder))
        with writing(folder):
            os.makedirs(folder, exist_ok=True)
            names = os.listdir(folder)
        numbers = [int(m.group(1)) for m in map(re.compile(r"part-([0-9]{8})(?:\..*)?").fullmatch, names) if m]
        self._next = max(numbers) + 1 if numbers else 0
        self._part: Optional[Sink] = None
        self._held, self._since_s, self._path = 0, 0.0, ""
        self._closed: List[Tuple[float, str]] = []
        self._counts = {"put": 0, "parts": 0, "lost": 0}
        # A wrong path or bundle fails now.
        self._open()
        self._remove_oldest()

    def _write(self, frame: Any) -> None:
        try:
            part = self._part_for_next()
            part.write(frame)
        except WriteFailed:
            self._counts["lost"] += 1
            # Save the part too. If that fails, its frames are counted there; the error is that of this frame.
            with contextlib.suppress(WriteFailed):
                self._finish()
            raise
        self._held += 1
        self._counts["put"] += 1

    def counts(self) -> Dict[str, int]:
        """``put``: frames taken; ``parts`` closed; ``lost``: frames that no disk took."""
        return dict(self._counts)

    def delivery(self) -> Delivery:
        """See ``Sink``."""
        return Delivery(self._counts["put"], 0, self._counts["lost"])

    def close(self) -> None:
        """Close the last part; remove it if it has no frame."""
        self._finish()

    def discard(self) -> None:
        """Remove the current part and those closed within the last hour; see ``SUSPECT_S``."""
        if self._part is not None:
            self._part.discard()
            self._remove(self._path)
            self._part = None
        for closed_s, path in self._closed:
            if closed_s >= self._clock() - SUSPECT_S:
                self._remove(path)
        self._closed = []

    def _part_for_next(self) -> Sink:
        if self._part is not None and not self._is_full() and self._has_space():
            return self._part
        self._finish()
        self._held = 0
        self._require_space()
        return self._open()

    def _is_full(self) -> bool:
        held = (self._held + 1) * self._frame_bytes
        too_big = self._most_bytes is not None and self._held > 0 and held > self._most_bytes
        return too_big or (self._most_s is not None and self._clock() - self._since_s >= self._most_s)

    def _has_space(self) -> bool:
        try:
            self._require_space()
        except WriteFailed:
            return False
        return True

    def _require_space(self) -> None:
        again = self._held + 1 if self._twice else 0
        atomic.require(os.path.join(self._folder, "part"), self._frame_bytes * (1 + again))

    def _open(self) -> Sink:
        path = os.path.join(self._folder, "part-{:08d}{}".format(self._next, self._suffix))
        part = self._part = self._make(path)
        self._path, self._held, self._since_s = path, 0, self._clock()
        self._next += 1
        return part

    def _finish(self) -> None:
        part, self._part = self._part, None
        if part is None:
            return
        if not self._held:
            part.discard()
            self._remove(self._path)
            return
        try:
            part.close()
        except WriteFailed:
            part.discard()
            self._counts["lost"] += self._held
            self._counts["put"] -= self._held
            raise
        self._counts["parts"] += 1
        self._remove_oldest()
        now = self._clock()
        self._closed = [(at, path) for at, path in self._closed if at >= now - SUSPECT_S] + [(now, self._path)]

    def _remove_oldest(self) -> None:
        if self._keep is None:
            return
        with contextlib.suppress(OSError):  # a part that somebody else removes meanwhile
            for path in parts_to_remove(self._folder, self._keep, self._path if self._part is not None else ""):
                self._remove(path)

    @staticmethod
    def _remove(path: str) -> None:
        with contextlib.suppress(OSError):
            if os.path.isdir(path):
                for name in os.listdir(path):
                    os.unlink(os.path.join(path, name))
                os.rmdir(path)
            else:
                os.unlink(path)
