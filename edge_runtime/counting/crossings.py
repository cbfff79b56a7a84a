"""Crossings of a line by one path, with hysteresis: who stands on the line or turns round on it has not crossed."""

from typing import Optional, Tuple

from edgeveil.edge_runtime.manifest.count import Line

Point = Tuple[float, float]  # row, column


def beside(line: Line, point: Point) -> float:
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
        away, before = beside(self._line, point), self._last
        if before is not None and (beside(self._line, before) < 0) != (away < 0):
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
        return (beside(step, self._line.start) < 0) != (beside(step, self._line.end) < 0)
