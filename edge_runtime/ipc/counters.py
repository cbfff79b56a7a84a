"""Counters that outlive the process that counts: names and integers in a page of shared memory.

The inside adds, the outside reads. When the inside is killed, its counts remain, so that frames in can be compared
exactly with frames out and drops. A name is a short word, a value an integer: nothing of a frame fits.
"""

import mmap
import os
import re
import struct
import tempfile
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Manifest

_NAME_SIZE = 40
_ENTRY = _NAME_SIZE + 8
_PAGE = 16384
_VALUE = struct.Struct("<q")
_NAME = re.compile(r"[a-z0-9:.-]{1,%d}" % _NAME_SIZE)
LEVEL = "level:"  # levels of the camera aid, while it is on
DROP = "drop:"  # frames that were dropped, by reason
COUNTS = "count:"  # before names of what counts of people may spend: they are released apart from frames


LATENCY = "latency:"  # sets by the time from the source to their release, each in the bucket of its upper bound
LATENCY_MS = (5, 10, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000, 2000)


class Counters(object):
    """Integers by name, in memory that may be shared. Several threads of one process may add to the same one.

    ``handle`` is a file descriptor of a page from ``shared_page``; without one the memory is not shared.
    """

    def __init__(self, handle: Optional[int] = None) -> None:
        self._page = mmap.mmap(-1 if handle is None else handle, _PAGE)
        self._offsets: Dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, name: str, count: int = 1) -> None:
        """Add ``count`` to ``name``."""
        with self._lock:
            offset = self._offset(name)
            _VALUE.pack_into(self._page, offset, _VALUE.unpack_from(self._page, offset)[0] + count)

    def set(self, name: str, value: int) -> None:
        """Set ``name`` to ``value``."""
        with self._lock:
            _VALUE.pack_into(self._page, self._offset(name), value)

    def clear(self) -> None:
        """Remove every name."""
        with self._lock:
            self._page[:] = bytes(_PAGE)
            self._offsets.clear()

    def get(self, name: str) -> int:
        """The count of ``name``; 0 if it was never counted."""
        offset = self._offsets.get(name)
        if offset is None:
            offset, is_there = self._find(name)
            if not is_there:
                return 0
            self._offsets[name] = offset
        value: int = _VALUE.unpack_from(self._page, offset)[0]
        return value

    def all(self) -> Dict[str, int]:
        """Every name and its count."""
        counts = {}
        for offset in range(0, _PAGE - _ENTRY, _ENTRY):
            name = bytes(self._page[offset : offset + _NAME_SIZE]).rstrip(b"\0").decode("ascii", "replace")
            if not name:
                break
            # The writer may be compromised, and the names are printed.
            if _NAME.fullmatch(name):
                counts[name] = _VALUE.unpack_from(self._page, offset + _NAME_SIZE)[0]
        return counts

    def _offset(self, name: str) -> int:
        if name not in self._offsets:
            if not _NAME.fullmatch(name):
                raise ValueError("a counter's name is of a-z 0-9 : . -, {} at most".format(_NAME_SIZE))
            offset, _ = self._find(name)
            if offset < 0:
                raise ValueError("the page of counters is full")
            self._page[offset - _NAME_SIZE : offset] = name.encode("ascii").ljust(_NAME_SIZE, b"\0")
            self._offsets[name] = offset
        return self._offsets[name]

    def _find(self, name: str) -> Tuple[int, bool]:
        """Where the count of ``name`` is and that it is there; or the first free place, -1 where there is none."""
        padded = name.encode("ascii").ljust(_NAME_SIZE, b"\0")
        for offset in range(0, _PAGE - _ENTRY, _ENTRY):
            stored = self._page[offset : offset + _NAME_SIZE]
            if stored == padded or not stored.strip(b"\0"):
                return offset + _NAME_SIZE, stored == padded
        return -1, False


def shared_page() -> int:
    """A file descriptor of an unnamed page of zeros, for ``Counters`` in two processes."""
    with tempfile.TemporaryFile() as file:
        file.truncate(_PAGE)
        return os.dup(file.fileno())


def page_at(path: str) -> int:
    """As ``shared_page``, in a file at ``path``, which is created if needed. Raises ``BadInput``."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o660)
        if os.fstat(handle).st_size < _PAGE:
            os.ftruncate(handle, _PAGE)  # fails for a pipe or a device
    except OSError as error:
        problem = "expected a page of counters at {}, or nothing: {}. Remove what is there."
        raise BadInput(problem.format(path, (error.strerror or "").lower())) from None
    return handle


def drops(counts: Dict[str, int]) -> Dict[str, int]:
    """The drops among ``counts`` that are not 0, by reason."""
    return {name[len(DROP) :]: n for name, n in sorted(counts.items()) if name.startswith(DROP) and n}


def count_latency(counters: Counters, seconds: float) -> None:
    """Count a set that was released so many seconds after the source gave its frame."""
    microseconds = int(seconds * 1e6)
    bound = next((bound for bound in LATENCY_MS if microseconds <= bound * 1000), "more")
    counters.add(LATENCY + str(bound))
    counters.add("latency-us", microseconds)
    counters.set("last-latency-us", microseconds)


def latencies(counts: Dict[str, int]) -> Tuple[List[float], List[int], float]:
    """Of the sets so far: the buckets' upper bounds (seconds), the sets in each, and the sum of their seconds."""
    bounds: List[Any] = [*LATENCY_MS, "more"]
    edges = [bound / 1e3 for bound in LATENCY_MS] + [float("inf")]
    return edges, [counts.get(LATENCY + str(bound), 0) for bound in bounds], counts.get("latency-us", 0) / 1e6


# The emission schedule: fixed by the signed manifest. Settings may make it stricter; frames never change it.


TICK_HZ = 10.0  # of a bundle without a capture section, unless --fps is given
DEGRADED_AFTER_S = 60.0
SLACK_S = 0.02  # or a quarter of a tick: what is not there by then waits for the next tick
BURST_S = 1.0  # windows of a time series that come within this time of each other all have a tick
NICE = 10  # of the processes that see raw frames, so that on one core the outside does not wait for them

Schedule = NamedTuple(
    "Schedule",
    [
        ("tick_s", float),  # seconds from one tick to the next
        ("slots", int),  # records emitted at each tick, whatever the camera sees
        ("on_fault", str),  # what they hold without a new set: the "previous" one or the "flat" one
        ("degraded_after_s", float),  # the period at whose end a lasting fault is announced
        ("backlog", int),  # frames that may wait for their ticks; then the oldest is dropped
    ],
)


def schedule(manifest: Manifest, fps: Optional[float] = None) -> Schedule:
    """The schedule of a manifest; ``fps`` (ticks a second) may make it slower than signed, never faster.

    A manifest without ``capture`` signs no schedule: it gets one record a tick. Raises ``BadInput``.
    """
    if fps is not None and not 0 < fps <= 1000:
        raise BadInput("expected --fps above 0 and up to 1000; got {:g}".format(fps))
    capture = manifest.capture
    if capture is None:
        ticks_hz = fps or TICK_HZ
        return Schedule(1.0 / ticks_hz, 1, "previous", DEGRADED_AFTER_S, _backlog(manifest, ticks_hz))
    signed = float(capture.tick_hz)
    if fps is not None and fps > signed:
        raise BadInput(
            "expected --fps {:g} at most, the signed schedule of the bundle; got {:g}. Choose a slower one".format(
                signed, fps
            )
        )
    ticks_hz, fault_s = fps or signed, float(capture.degraded_after_s)
    return Schedule(1.0 / ticks_hz, capture.slots, capture.on_fault, fault_s, _backlog(manifest, ticks_hz))


def _backlog(manifest: Manifest, ticks_hz: float) -> int:
    # Of a camera the newest picture is the best one; a window of a time series is not in the one after it.
    return 1 + int(BURST_S * ticks_hz) if manifest.input.kind == "series" else 1
