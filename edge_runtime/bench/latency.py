"""Times of repeated calls, as a whole and in windows. Seconds in, milliseconds out."""

import array
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import numpy as np

from edgeveil.edge_runtime.errors import DeviceFailed

STEADY = 0.05  # two windows of the warm-up that differ by less are steady


class Minimum(NamedTuple):
    """A series runs until both are reached."""

    calls: int
    seconds: float


class Times(object):
    """The duration of each call, in seconds, and when it began, on the same clock."""

    def __init__(self) -> None:
        self.began = array.array("d")
        self.took = array.array("d")
        self.late = 0

    def seconds(self) -> float:
        """The total duration."""
        return float(sum(self.took))


def take(
    call: Callable[[int], None],
    minimum: Minimum,
    clock: Callable[[], float],
    *,
    pace_fps: Optional[float] = None,
    sleep: Callable[[float], None] = time.sleep,
    between: Callable[[float], None] = lambda _: None,
) -> Times:
    """Call until ``minimum`` is reached; its seconds are the calls' own, or with ``pace_fps`` the elapsed time.

    ``between`` is called with the time after every call and is not timed. Raises ``DeviceFailed`` if the clock goes
    backwards, or stands still for the whole series.
    """
    times = Times()
    total = 0.0
    origin = clock()
    while len(times.took) < minimum.calls or total < minimum.seconds:
        if pace_fps is not None:
            due = origin + len(times.took) / pace_fps
            wait = due - clock()
            if wait > 0:
                sleep(wait)
        start = clock()
        call(len(times.took))
        took = clock() - start
        if took < 0:
            raise DeviceFailed("the clock went backwards while timing; wait until it is set and run again")
        times.began.append(start - origin)
        times.took.append(took)
        if pace_fps is not None and took > 1.0 / pace_fps:
            times.late += 1
        total = total + took if pace_fps is None else start + took - origin
        between(start + took - origin)
        if total <= 0 and len(times.took) > minimum.calls + 1000000:
            break
    if times.seconds() <= 0:
        raise DeviceFailed("the clock stood still while timing: it is too coarse; time more frames")
    return times


def warm_up(call: Callable[[int], None], minimum: Minimum, clock: Callable[[], float]) -> Dict[str, Any]:
    """Call in windows of ``minimum`` until two in a row have medians within ``STEADY``; ten windows at most."""
    before = None
    count, seconds, steady = 0, 0.0, False
    for _ in range(10):
        times = take(call, minimum, clock)
        count, seconds = count + len(times.took), seconds + times.seconds()
        median = float(np.median(times.took))
        steady = before is not None and abs(median - before) <= STEADY * before
        if steady:
            break
        before = median
    return {"count": count, "seconds": seconds, "steady": steady}


def figures(times: Times) -> Dict[str, float]:
    """The distribution, in milliseconds."""
    ms = np.asarray(times.took) * 1e3
    names = ("p50", "p90", "p95", "p99", "p999")
    summary = dict(zip(names, np.percentile(ms, [50, 90, 95, 99, 99.9]).tolist()))
    summary.update(mean=float(ms.mean()), min=float(ms.min()), max=float(ms.max()))
    return summary


def windows(times: Times, count: int) -> List[Dict[str, float]]:
    """``count`` equal parts of the series (fewer where there are fewer calls): begin, calls, median, worst."""
    parts = []
    for part in np.array_split(np.arange(len(times.took)), min(count, len(times.took))):
        ms = np.asarray(times.took)[part] * 1e3
        parts.append(
            {
                "start_s": float(times.began[int(part[0])]),
                "count": len(part),
                "p50": float(np.median(ms)),
                "p99": float(np.percentile(ms, 99)),
                "max": float(ms.max()),
            }
        )
    return parts


def drift(times: Times) -> float:
    """The median of the second half divided by that of the first, minus 1."""
    half = len(times.took) // 2
    first, second = np.median(times.took[:half] or times.took), np.median(times.took[half:])
    return float(second / first - 1) if first else 0.0
