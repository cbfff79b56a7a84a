"""Who really crossed a line, and who is in a zone: from a simulated scene, or from heads that people marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from edgeveil.edge_runtime.counting.crossings import LineWatch
from edgeveil.edge_runtime.manifest.count import Line

Point = tuple[float, float]


class Crossing(NamedTuple):
    """At a frame; ``way`` is 1 for in and -1 for out."""

    frame: int
    way: int


class Match(NamedTuple):
    """Crossings counted rightly, missed, and counted in excess."""

    right: list[Crossing]
    missed: list[Crossing]
    extra: list[Crossing]


def crossings(line: Line, heads: Sequence[Point | None], margin: float) -> list[Crossing]:
    """Where one head (None: not marked) crosses a line and is ``margin`` pixels away on both sides."""
    watch = LineWatch(line, margin)
    found = [(frame, watch.move(head)) for frame, head in enumerate(heads) if head is not None]
    return [Crossing(frame, way) for frame, way in found if way]


def match(true: Sequence[Crossing], counted: Sequence[Crossing], within: int) -> Match:
    """Each true crossing with the nearest counted one of its way, at most ``within`` frames away."""
    left, right, missed = list(counted), [], []
    for one in true:
        near = [other for other in left if other.way == one.way and abs(other.frame - one.frame) <= within]
        if near:
            left.remove(min(near, key=lambda other: abs(other.frame - one.frame)))
            right.append(one)
        else:
            missed.append(one)
    return Match(right, missed, left)


def nearest(place: Point, people: dict[int, Point], within: float) -> int | None:
    """Which of ``people`` a place belongs to, None where nobody is so near."""
    if not people:
        return None
    away, who = min((float(np.hypot(place[0] - head[0], place[1] - head[1])), who) for who, head in people.items())
    return who if away <= within else None
