"""Ways of people from frame to frame, for counting: each goes on where its last steps lead.

Unlike tracks that hold a code (``capture.tracker``), walks have no slots, and one that is not seen for a moment coasts.
"""

from typing import List, Optional, Sequence, Tuple

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
