"""Ways of people from frame to frame, for counting: each goes on where its last steps lead.

Unlike tracks that hold a code (``crops.Tracker``), walks have no slots, and one that is not seen for a moment coasts.
"""

import threading
import time
from bisect import bisect_right
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from edgeveil.edge_runtime.ipc.record import Counted
from edgeveil.edge_runtime.manifest.count import MICRO, CountRules, Line
from edgeveil.edge_runtime.stages.random_draws import discrete_laplace

Point = Tuple[float, float]  # row, column
_NEWEST = 0.5  # weight of the last step in the pace: one wrong centre does not throw a walk off


class Walk(object):
    """One person's way through the picture. ``place`` is where they are, or should be while not seen."""

    __slots__ = ("missed", "pace", "place")

    def __init__(self, place: Point) -> None:
        self.place = place
        self.pace = (0.0, 0.0)  # pixels a frame
        self.missed = 0

    def ahead(self) -> Point:
        """Where it should be in the next frame."""
        return self.place[0] + self.pace[0], self.place[1] + self.pace[1]


class Walks(object):
    """Joins places of people to walks: the nearest to where a walk leads, at most ``step_px`` away for each frame that
    it was not seen. A walk ends after ``gone_frames`` frames without its person."""

    def __init__(self, *, step_px: float, gone_frames: int) -> None:
        self._step, self._gone = step_px, gone_frames
        self.alive: List[Walk] = []

    def update(self, places: Sequence[Point]) -> List[Walk]:
        """Move all walks by one frame; those that ended. New ones are at the end of ``alive``."""
        pairs = []
        for walk in self.alive:
            row, column = walk.ahead()
            for number, (r, c) in enumerate(places):
                away = ((r - row) ** 2 + (c - column) ** 2) ** 0.5
                if away <= self._step * (walk.missed + 1):
                    pairs.append((away, number, walk))
        seen, taken = {}, set()
        for _, number, walk in sorted(pairs, key=lambda pair: pair[:2]):
            if walk not in seen and number not in taken:
                seen[walk] = places[number]
                taken.add(number)
        for walk in self.alive:
            _move(walk, seen.get(walk))
        ended = [walk for walk in self.alive if walk.missed > self._gone]
        self.alive = [walk for walk in self.alive if walk.missed <= self._gone]
        self.alive += [Walk(place) for number, place in enumerate(places) if number not in taken]
        return ended

    def end_all(self) -> List[Walk]:
        """End all walks, after the stream was interrupted; those that there were."""
        ended, self.alive = self.alive, []
        return ended


def _move(walk: Walk, place: Optional[Point]) -> None:
    ahead = walk.ahead()
    if place is None:
        walk.place, walk.missed = ahead, walk.missed + 1
        return
    # From the place that was expected: while it coasted, the pace alone moved it.
    walk.pace = (
        walk.pace[0] + _NEWEST * (place[0] - ahead[0]) / (walk.missed + 1),
        walk.pace[1] + _NEWEST * (place[1] - ahead[1]) / (walk.missed + 1),
    )
    walk.place, walk.missed = (place[0], place[1]), 0


# Crossings of a line by one path, with hysteresis: who stands on the line or turns round on it has not crossed.


def offset_from(line: Line, point: Point) -> float:
    """Distance of a point from the endless line, in pixels: positive to the right of who looks from ``start`` to
    ``end``, in the upright picture."""
    rows, columns = line.end[0] - line.start[0], line.end[1] - line.start[1]
    down, across = point[0] - line.start[0], point[1] - line.start[1]
    return float((columns * down - rows * across) / (rows * rows + columns * columns) ** 0.5)


class LineWatch(object):
    """One path and one line. A path has crossed once it was ``margin`` pixels away on one side, then on the other,
    and came through between the line's ends."""

    def __init__(self, line: Line, margin: float) -> None:
        self._line, self._margin = line, margin
        self._side = 0
        self._through = False
        self._last: Optional[Point] = None

    def move(self, point: Point) -> int:
        """1 where this point completes a crossing to the right (in), -1 to the left (out), else 0."""
        away, before = offset_from(self._line, point), self._last
        if before is not None and (offset_from(self._line, before) < 0) != (away < 0):
            self._through = self._between_ends(before, point)
        self._last = point
        if abs(away) < self._margin:
            return 0
        side = 1 if away > 0 else -1
        crossed = side if self._side == -side and self._through else 0
        self._side = side
        return crossed

    def _between_ends(self, before: Point, point: Point) -> bool:
        """Whether the step between two points on different sides meets the line between its ends."""
        step = Line("", before, point)
        return (offset_from(step, self._line.start) < 0) != (offset_from(step, self._line.end) < 0)


# One path and one zone: whether it is inside now, and how long each stay lasted.


LEFT_S = 1.0  # a stay goes on where its person is back within this time


def inside(corners: Sequence[Point], point: Point) -> bool:
    """Whether a point is in a polygon, by the even-odd rule."""
    row, column = point
    odd = False
    for (row1, column1), (row2, column2) in zip(corners, [*corners[1:], corners[0]]):
        if (row1 > row) != (row2 > row) and column < column1 + (row - row1) * (column2 - column1) / (row2 - row1):
            odd = not odd
    return odd


class Stay(object):
    """One path's time in one zone. ``here`` is whether it is inside now; times are seconds of one clock."""

    def __init__(self, corners: Sequence[Point]) -> None:
        self._corners = corners
        self.here = False
        self._began_s: Optional[float] = None
        self._last_s = 0.0

    def move(self, point: Point, now_s: float) -> Optional[float]:
        """The length in seconds of a stay that is over now, else None."""
        self.here = inside(self._corners, point)
        ended = None
        if self._began_s is not None and now_s - self._last_s > LEFT_S:
            ended = self.end()
        if self.here:
            self._began_s = now_s if self._began_s is None else self._began_s
            self._last_s = now_s
        return ended

    def end(self) -> Optional[float]:
        """The length of the stay that runs, which ends with its path; None without one."""
        began_s, self._began_s = self._began_s, None
        return None if began_s is None else self._last_s - began_s


# Counts people by lines and zones, period by period, from the places where they were found in each frame.
#
# Periods are those of the device's clock, so that the other process knows when each is over: number n is the time from
# n to n + 1 periods. ``close`` hands out a period's numbers once, with noise where the manifest has it.


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

    ``step_px`` and ``gone_frames`` are those of ``capture.crop``. Who is first or last seen within ``step_px`` of
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

    @classmethod
    def from_manifest(cls, manifest: Any) -> "Optional[Counter]":
        """What counts people for a manifest; None where it has that not counted."""
        if manifest.counts is None:
            return None
        finder = manifest.detector or manifest.capture.crop
        steps = {"step_px": finder.step_px, "gone_frames": finder.gone_frames}
        return cls(manifest.counts, manifest.capture.frame.shape[:2], clock=time.monotonic, **steps)

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
            here = sum(watched.zones[number].here for watched in self._watched.values())
            values[place] = min(here, self._rules.most[place])
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
            self._values[place] = min(self._values[place] + 1, self._rules.most[place])

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
