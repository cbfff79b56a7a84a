"""The bases of all sources: the constructor opens them, ``next`` gives one frame after the other, ``close``."""

import time
import zlib
from typing import Any, Callable, Dict, Optional, Sequence, TypeVar

import numpy as np

from edgeveil.edge_runtime.errors import FrameDropped, Stalled
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.late_imports import MOST_FITTED

STALL_S = 5.0  # a camera that gives nothing, or only the same picture, for this long has stalled
ROWS = 16  # of a picture, compared with those of the last one: apart, so that memory is read in long pieces
Sensor = Dict[str, Any]  # what the sensor must give, by manifest.sensor.expected
S = TypeVar("S", bound="Source")


class Source(object):
    """Frames one after the other. A subclass gives ``next``, and ``close`` where it holds something open.

    ``size`` is how many frames there will be, or None if that is unknown. ``live`` sources give frames as they come,
    and their outputs are sent on ticks; the frames of others are rows of a file that keep their numbers. ``simulated``
    sources read no sensor. ``raw_on_network``: the raw frames came over a network. ``name`` is for messages and holds
    no credentials.

    A kind of source is a class with ``schemes``, its words before the colon. Its facts are literals of its body:
    ``forms`` and ``help`` (a row of docs/reference/sources.md), ``needs``, the libraries that it needs (keys of
    ``late_imports.LIBRARIES``, or a test as there), ``sensor``, what it ``gives`` in words,
    ``axes`` and ``channels`` of its frames; ``bare`` (needs no text behind the colon), ``file``, ``recording``,
    ``samples`` of a series, ``series_only``, ``windows`` of a series, ``subjects`` (has --subject-column), ``shared``
    (several may read it); ``port``, its default, where raw frames come over a network, by ``tls``; ``daemon``, a
    pattern of places that a daemon serves; ``apart`` (a process of its own reads it, which may start programs);
    ``program`` (its place is one, with arguments); ``quiet`` (its frames may be equal for long); ``interface`` (a
    network interface is its sensor); ``device_file``, what a number is put behind; ``options``, a pattern by the name
    of each that may follow a question mark; ``listed`` (its place is the name of a device of that subsystem, "iio");
    ``devices`` and ``groups`` of a service's unit, ``own_unit``, a pattern of places that need a unit of the user's
    own; ``writes_files`` (so does its library);
    ``calls`` and ``ioctls`` (sandbox/allowed_calls.py), where its system calls were measured.
    """

    size: Optional[int] = None
    blocks = False  # whether the loop calls ``next_block`` and ``refused`` (see ``text``) and not ``next``
    live = False
    simulated = False
    raw_on_network = False
    name = "source"
    beat: Callable[[], None] = staticmethod(lambda: None)  # to call while waiting: the loop sets it
    total = False  # whether a complete reading is given whatever its values are; the loop sets it for a promise

    @classmethod
    def prepare(cls, source: str) -> Any:
        """Load all code that reading ``source`` needs, in a process that can open no file of it later.

        What it returns is what ``forward`` gets; with a ``port``, that port of the loopback stays in reach.
        """

    @classmethod
    def forward(cls, source: str, sensor: Sensor, pipe: Any, prepared: Any) -> None:  # noqa: ARG003
        """Send frames to the inside through ``pipe`` (``feeding.Pipe``), for a source that another process reads."""
        make: Any = cls
        with make(source.partition(":")[2], sensor) as opened:
            pipe.samples(opened)

    def next(self) -> Optional[RawFrame]:
        """The next ``RawFrame`` with its number and capture time, or None after the last.

        A live source waits for it. Raises ``FrameDropped`` where only this frame cannot be read, ``SourceFailed``
        (``Disconnected``, ``Stalled``, ``Unsupported``) where the source cannot go on.
        """
        raise NotImplementedError

    def skip(self, frames: int) -> None:
        """Pass over so many frames, as if ``next`` had given them. Raises ``SourceFailed``."""
        for _ in range(frames):
            try:
                self.next()
            except FrameDropped:
                continue

    def close(self) -> None:
        """Close files and devices."""

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def has_size(shape: Sequence[int], spec: Sensor) -> bool:
    """Whether a picture of ``shape`` (height, width[, channels]) is what a bundle takes, before it is decoded.

    Where the bundle's capture has a ``fit``, this is any size of at most ``MOST_FITTED`` pixels.
    """
    if spec.get("any_size") and list(shape[2:]) == list(spec["shape"][2 : len(shape)]):
        return 0 < shape[0] * shape[1] <= MOST_FITTED
    return list(shape) == list(spec["shape"][: len(shape)])


def now_ns() -> int:
    """Nanoseconds of a clock that never goes back; ``time.monotonic_ns`` is not in Python 3.6."""
    return int(time.monotonic() * 1e9)


class Pace(object):
    """Plays a recording at its own speed: ``wait(t)`` returns ``t`` seconds after the first ``wait(0)``.

    A reader that is late does not wait, and later frames keep the recording's times.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._start: Optional[float] = None

    def wait(self, seconds: float) -> None:
        """Sleep until ``seconds`` of the recording have passed."""
        if self._start is None:
            self._start = self._clock() - seconds
        left = self._start + seconds - self._clock()
        if left > 0:
            self._sleep(left)


class Freshness(object):
    """Tells a frozen camera from a quiet scene: a sensor has noise, so no two of its pictures are equal.

    ``check`` raises ``Stalled`` when only the same picture has come for ``limit_s``. It compares whole rows, about
    ``ROWS`` of them.
    """

    def __init__(self, what: str, limit_s: float = STALL_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._limit_s, self._clock = what, limit_s, clock
        self._last: Optional[int] = None
        self._since = 0.0

    def check(self, picture: np.ndarray) -> None:
        """Compare one picture (height, width, ...) with the last."""
        seen = zlib.crc32(picture[:: max(1, len(picture) // ROWS)].tobytes())
        now = self._clock()
        if seen != self._last:
            self._last, self._since = seen, now
        elif now - self._since >= self._limit_s:
            raise Stalled(
                "{} has given the same picture for {:.0f} s: it is frozen. Unplug it and plug it in again.".format(
                    self._what, self._limit_s
                )
            )


class Camera(Source):
    """A live source of pictures.

    The constructor of a subclass calls ``_start``, which calls its ``_open``; ``_read`` waits for a picture (height,
    width, ...), ``_fit`` makes a frame of it. A picture in ``_ahead`` is given before the next ``_read``. ``freshness``
    notices a frozen camera.
    """

    live = True

    def __init__(self, name: str, spec: Sensor) -> None:
        self.name, self._spec = name, spec
        self.freshness = Freshness(name)
        self._ahead: Optional[np.ndarray] = None
        self._next = 0

    def _start(self, where: str) -> None:
        try:
            self._open(where)
        except BaseException:
            self.close()
            raise

    def next(self) -> Optional[RawFrame]:
        """The next picture, waited for at most ``STALL_S``; None at the end of a recording."""
        picture = self._read() if self._ahead is None else self._ahead
        self._ahead, taken = None, now_ns()
        if picture is None:
            return None
        index, self._next = self._next, self._next + 1
        if not self.total:
            self.freshness.check(picture)
        return RawFrame(self._fit(picture), index, taken)

    def _open(self, where: str) -> None:
        raise NotImplementedError

    def _read(self) -> Optional[np.ndarray]:
        raise NotImplementedError

    def _fit(self, picture: np.ndarray) -> np.ndarray:
        """The picture as the bundle takes it. Raises ``FrameDropped``."""
        if not has_size(picture.shape, self._spec):
            raise FrameDropped("shape")
        return picture

    def _stalled(self) -> Stalled:
        return Stalled("{} gave no picture for {:.0f} s: unplug it and plug it in again".format(self.name, STALL_S))
