"""Counts people by lines and zones, period by period, from the places where they were found in each frame.

Periods are those of the device's clock, so that the other process knows when each is over: number n is the time from
n to n + 1 periods. ``close`` hands out a period's numbers once, with noise where the manifest has it.
"""

import threading
from bisect import bisect_right
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from edgeveil.edge_runtime.counting.crossings import LineWatch
from edgeveil.edge_runtime.counting.walks import Walk, Walks
from edgeveil.edge_runtime.counting.zones import Stay
from edgeveil.edge_runtime.ipc.record import Counted
from edgeveil.edge_runtime.manifest.count import MICRO, CountRules
from edgeveil.edge_runtime.stages.random_draws import discrete_laplace

Point = Tuple[float, float]  # row, column
Noise = Callable[[int, int, int], Sequence[int]]


class _Watched(NamedTuple):
    """What is kept of one walk: its lines, its zones, and what it added to this period by place in the record."""

    lines: Sequence[LineWatch]
    zones: Sequence[Stay]
    added: Dict[int, int]


def two_sided_geometric(count: int, numerator: int, denominator: int) -> List[int]:
    """``count`` draws of the operating system: k with probability proportional to exp(-|k| denominator / numerator)."""
    drawn: List[int] = discrete_laplace((count,), numerator=numerator, denominator=denominator).tolist()
    return drawn


class Counter(object):
    """Counts by ``rules`` in pictures of ``shape``. One thread gives ``people``, another may ``close`` periods.

    ``step_px`` and ``gone_frames`` are those of ``capture.crop``. Whoever is first or last seen within ``step_px`` of
    the picture's border came or left through it. Tests inject ``clock`` (seconds) and ``noise``.
    """

    def __init__(
        self,
        rules: CountRules,
        shape: Sequence[int],
        *,
        step_px: float,
        gone_frames: int,
        clock: Callable[[], float],
        noise: Noise = two_sided_geometric,
    ) -> None:
        self._rules, self._shape, self._border, self._clock, self._noise = rules, shape, step_px, clock, noise
        self._walks = Walks(step_px=step_px, gone_frames=gone_frames)
        self._watched: Dict[Walk, _Watched] = {}
        self._values = [0] * len(rules.names)
        self._most = rules.noise.most_each if rules.noise else None
        self._period = self._period_now()
        self._whole = False  # it began in the middle of a period
        self._lock = threading.Lock()

    def people(self, places: Sequence[Point]) -> None:
        """The places of all people in one frame."""
        with self._lock:
            for walk in self._walks.update(places):
                self._end(walk)
            for walk in self._walks.alive:
                self._move(walk)

    def restart(self) -> None:
        """End all walks after the source was reopened: this period was not watched to its end."""
        with self._lock:
            for walk in self._walks.end_all():
                self._end(walk)
            self._whole = False

    def close(self) -> Optional[Counted]:
        """The period that is over, once; None while it runs. Periods that passed meanwhile are skipped."""
        now = self._period_now()
        with self._lock:
            if now == self._period:
                return None
            counted = Counted(self._period, self._whole, self._released())
            self._whole = now == self._period + 1
            self._period = now
            self._values = [0] * len(self._values)
            for watched in self._watched.values():
                watched.added.clear()
            return counted

    def _period_now(self) -> int:
        return int(self._clock() // self._rules.period_s)

    def _released(self) -> List[int]:
        values = list(self._values)
        place = 2 * len(self._rules.lines)
        for number in range(len(self._rules.zones)):
            values[place] = sum(watched.zones[number].here for watched in self._watched.values())
            place += self._in_a_zone
        noise = self._rules.noise
        if noise is None:
            return values
        drawn = self._noise(len(values), self._rules.sensitivity * MICRO, noise.micro_epsilon)
        return [value + more for value, more in zip(values, drawn)]

    @property
    def _in_a_zone(self) -> int:
        """Numbers of a zone: occupancy, and the bins of stays."""
        return 1 + (len(self._rules.dwell_s) + 1 if self._rules.dwell_s else 0)

    def _move(self, walk: Walk) -> None:
        watched = self._watched.get(walk)
        if watched is None:
            watched = self._watched[walk] = self._begin(walk)
        self._step(watched, walk.place)
        now_s = self._clock()
        for number, stay in enumerate(watched.zones):
            self._stayed(watched, number, stay.move(walk.place, now_s))

    def _begin(self, walk: Walk) -> _Watched:
        lines = [LineWatch(line, self._rules.margin_px) for line in self._rules.lines]
        watched = _Watched(lines, [Stay(zone.corners) for zone in self._rules.zones], {})
        outside = self._beyond_border(walk.place)
        if outside is not None:
            self._step(watched, outside)
        return watched

    def _end(self, walk: Walk) -> None:
        watched = self._watched.pop(walk)
        outside = self._beyond_border(walk.place)
        if outside is not None:
            self._step(watched, outside)
        for number, stay in enumerate(watched.zones):
            self._stayed(watched, number, stay.end())

    def _step(self, watched: _Watched, point: Point) -> None:
        for number, line in enumerate(watched.lines):
            crossed = line.move(point)
            if crossed:
                self._add(watched, 2 * number + (crossed < 0))

    def _stayed(self, watched: _Watched, zone: int, stayed_s: Optional[float]) -> None:
        if stayed_s is not None and self._rules.dwell_s:
            place = 2 * len(self._rules.lines) + zone * self._in_a_zone + 1
            # One cap for all bins: the sensitivity says how many stays a track adds, not to which of them.
            self._add(watched, place + bisect_right(self._rules.dwell_s, stayed_s), cap=place)

    def _add(self, watched: _Watched, place: int, cap: Optional[int] = None) -> None:
        cap = place if cap is None else cap
        watched.added[cap] = watched.added.get(cap, 0) + 1
        if self._most is None or watched.added[cap] <= self._most:
            self._values[place] += 1

    def _beyond_border(self, place: Point) -> Optional[Point]:
        """A place outside the picture, across the nearest border, for one within reach of it; else None."""
        row, column = place
        beyond = 2 * self._rules.margin_px
        ways = [
            (row, (-beyond, column)),
            (column, (row, -beyond)),
            (self._shape[0] - row, (self._shape[0] + beyond, column)),
            (self._shape[1] - column, (row, self._shape[1] + beyond)),
        ]
        away, outside = min(ways)
        return outside if away <= self._border else None
