"""The base of all sources: opened by the constructor, asked for one frame after the other, closed."""

import time
import zlib
from typing import Any, Callable, Dict, Optional, TypeVar

import numpy as np

from edgeveil.edge_runtime.errors import Stalled
from edgeveil.edge_runtime.frames import RawFrame

STALL_S = 5.0  # a camera that gives nothing, or the same picture again and again, for so long is stalled


Sensor = Dict[str, Any]  # what the sensor must give, by manifest.sensor.expected
S = TypeVar("S", bound="Source")


class Source(object):
    """Frames one after the other. A subclass gives ``next``; ``close`` where there is something to let go.

    ``size`` is how many frames there will be, or None if that is unknown. ``live``: it gives frames when they come, so
    that what is made of them leaves on ticks; else they are rows of a file that keep their numbers. ``simulated``: what
    it gives never came from a sensor. ``raw_on_network``: its raw frames came over a network. ``name`` is what it is
    called where people read it, without credentials.
    """

    size: Optional[int] = None
    blocks = False  # whether it is asked for blocks: ``next_block`` and ``refused`` (see ``lines``), not ``next``
    live = False
    simulated = False
    raw_on_network = False
    name = "source"

    def next(self) -> Optional[RawFrame]:
        """The next ``RawFrame`` with its number and capture time, or None after the last.

        A live source waits for it. Raises ``FrameDropped`` where one frame could not be read and the next may be,
        ``SourceFailed`` where none can: ``Disconnected``, ``Stalled`` or ``Unsupported``.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Let files and devices go."""

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def now_ns() -> int:
    """Nanoseconds of a clock that never goes back; ``time.monotonic_ns`` is not in Python 3.6."""
    return int(time.monotonic() * 1e9)


class Pace(object):
    """Holds a reader back to the times of a recording: ``wait(t)`` returns ``t`` seconds after the first ``wait(0)``.

    A reader that comes late does not wait, and later frames keep the recording's times.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._start: Optional[float] = None

    def wait(self, seconds: float) -> None:
        """Sleep until the recording's time ``seconds`` has come."""
        if self._start is None:
            self._start = self._clock() - seconds
        left = self._start + seconds - self._clock()
        if left > 0:
            self._sleep(left)


class Freshness(object):
    """Tells a frozen camera from a quiet scene: a sensor has noise, so no two of its pictures are alike.

    ``check`` raises ``Stalled`` when the same picture has come for ``limit_s``. Every fourth pixel is looked at.
    """

    def __init__(self, what: str, limit_s: float = STALL_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._limit_s, self._clock = what, limit_s, clock
        self._last: Optional[int] = None
        self._since = 0.0

    def check(self, picture: np.ndarray) -> None:
        """Take note of one picture (height, width, ...)."""
        seen = zlib.crc32(picture[::4, ::4].tobytes())
        now = self._clock()
        if seen != self._last:
            self._last, self._since = seen, now
        elif now - self._since >= self._limit_s:
            raise Stalled(
                "{} has given the same picture for {:.0f} s: it is frozen. Unplug it and plug it in again.".format(
                    self._what, self._limit_s
                )
            )
