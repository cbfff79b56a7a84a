"""One path and one zone: whether it is inside now, and how long each stay lasted."""

from typing import Optional, Sequence, Tuple

Point = Tuple[float, float]  # row, column
LEFT_S = 1.0  # a stay goes on where its person is back within this time


def inside(corners: Sequence[Point], point: Point) -> bool:
    """Whether a point is in a polygon, by the even-odd rule."""
    row, column = point
    found = False
    for (row1, column1), (row2, column2) in zip(corners, [*corners[1:], corners[0]]):
        if (row1 > row) != (row2 > row) and column < column1 + (row - row1) * (column2 - column1) / (row2 - row1):
            found = not found
    return found


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
