"""The manifest's ``count``: what is counted of the people before a camera; absent where nothing is.

Places are [row, column] in pixels of the sensor's frame. A record has ``values`` whole numbers, in the order of
``names``: of each line ``in`` and ``out``, of each zone ``occupancy`` and, with ``dwell_s``, a number for each bin.
"""

import math
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from edgeveil.edge_runtime.util import validate as field
from edgeveil.edge_runtime.util.validate import Field, Problem, Table

LEAST_PERIOD_S = 10  # a shorter one would say when one person passed
MOST_PERIOD_S = 86400
MICRO = 10**6  # steps of epsilon in 1
MOST_EACH = 100
MOST_SEEN = 16  # people in one frame that are counted, and in one zone; crossings and stays a second
_MOST_PLACES, _MOST_CORNERS, _MOST_BINS = 8, 32, 12

Point = Tuple[float, float]


class Line(NamedTuple):
    """``in`` is a crossing from its left to its right, seen from ``start`` to ``end``."""

    name: str
    start: Point
    end: Point


class Zone(NamedTuple):
    """A polygon."""

    name: str
    corners: Sequence[Point]


class CountNoise(NamedTuple):
    """Two-sided geometric noise. ``most_each``: crossings of a line each way, and stays, of one track in a record."""

    micro_epsilon: int
    most_each: int
    most_micro_epsilon: int  # of all records of a day


class CountRules(NamedTuple):
    """What is counted. ``dwell_s``: the seconds between two bins of stays. ``margin_px``: hysteresis of a line."""

    lines: Sequence[Line]
    zones: Sequence[Zone]
    period_s: int
    dwell_s: Sequence[float]
    margin_px: float
    noise: Optional[CountNoise]

    @property
    def names(self) -> List[Tuple[str, str, str]]:
        """("line" or "zone", its name, what) of every number of a record, in order."""
        dwell = ["dwell-{}".format(place) for place in range(len(self.dwell_s) + 1)] if self.dwell_s else []
        of_lines = [("line", line.name, what) for line in self.lines for what in ("in", "out")]
        return of_lines + [("zone", zone.name, what) for zone in self.zones for what in ["occupancy"] + dwell]

    @property
    def sensitivity(self) -> int:
        """The most by which one track changes a record with noise: the sum over all its numbers."""
        most = self.noise.most_each if self.noise else 1
        return 2 * most * len(self.lines) + (1 + (most if self.dwell_s else 0)) * len(self.zones)

    @property
    def most(self) -> List[int]:
        """The most that each number of a record is before its noise."""
        return [MOST_SEEN * (1 if what == "occupancy" else self.period_s) for _, _, what in self.names]

    @property
    def bits(self) -> float:
        """What a record carries at most, wherever its maker's network puts people."""
        scale = 0.0 if self.noise is None else self.sensitivity * MICRO / float(self.noise.micro_epsilon)
        return sum(_carried(most, scale) for most in self.most)


def _carried(most: int, scale: float) -> float:
    """Bits of one of the numbers 0 to ``most`` under two-sided geometric noise: of all integers with a mean distance
    from their middle, this noise's law has the largest entropy."""
    whole = math.log(most + 1, 2)
    ratio = math.exp(-1 / scale) if scale else 0.0
    if ratio < 1e-9:
        return whole
    away = 2 * ratio / (1 - ratio * ratio)
    wide = (most + 1) // 2 + away
    return min(whole, _entropy((math.sqrt(1 + wide * wide) - 1) / wide) - _entropy(ratio))


def _entropy(ratio: float) -> float:
    """Bits of an integer k with probability proportional to ratio^|k|."""
    return -math.log((1 - ratio) / (1 + ratio), 2) - 2 * ratio / (1 - ratio * ratio) * math.log(ratio, 2)


def _placed(_period_s: int, count: Any, document: Any) -> Iterable[Problem]:
    """Lines and zones are in the picture, and of a size."""
    size = document["capture"]["frame"]["shape"][:2]
    for kind in ("lines", "zones"):
        for number, one in enumerate(count[kind]):
            at = "{}[{}]".format(kind, number)
            corners = list(one.get("corners", ())) or [one["start"], one["end"]]
            for place, point in enumerate(corners):
                if not (0 <= point[0] <= size[0] and 0 <= point[1] <= size[1]):
                    name = ("start", "end")[place] if kind == "lines" else "corners[{}]".format(place)
                    problem = "expected [row, column] in the picture of {}, got {}"
                    yield "bad-value", "{}.{}".format(at, name), problem.format(size, point)
            if kind == "lines" and corners[0] == corners[1]:
                yield "bad-value", at, "expected a line between two places"
            if kind == "zones" and not _area(corners):
                yield "bad-value", at + ".corners", "expected a polygon with an area"
    for kind in ("lines", "zones"):
        if len({one["name"] for one in count[kind]}) != len(count[kind]):
            yield "redefined-value", kind, "two have the same name"


def _countable(count: Any, _manifest: Any, _document: Any) -> Iterable[Problem]:
    if not count["lines"] and not count["zones"]:
        yield "bad-count", "", "expected a line or a zone"
    if sorted(set(count["dwell_s"])) != count["dwell_s"]:
        yield "bad-value", "dwell_s", "expected rising seconds"
    if count["dwell_s"] and not count["zones"]:
        yield "bad-value", "dwell_s", "expected none without a zone to stay in"


def _area(corners: Sequence[Sequence[float]]) -> float:
    """Twice the area of a polygon, with a sign."""
    after = [*corners[1:], corners[0]]
    return sum(one[0] * two[1] - one[1] * two[0] for one, two in zip(corners, after))


_NO_FINDER = "bad-value", "", "expected capture.crop or a detector, which finds the people that are counted"
_POINT = field.each(field.real(), 2, 2)
_LINE: Table = {"start": _POINT, "end": _POINT, "name": field.identifier()}
_ZONE: Table = {"corners": field.each(_POINT, 3, _MOST_CORNERS), "name": field.identifier()}
_NOISE: Table = {
    "micro_epsilon": field.whole(1, 100 * MICRO),
    "most_each": field.whole(1, MOST_EACH),
    "most_micro_epsilon": lambda noise, _: field.whole(noise["micro_epsilon"]),
}
COUNT: Table = {
    "lines": field.each(field.record(_LINE), 0, _MOST_PLACES),
    "zones": field.each(field.record(_ZONE), 0, _MOST_PLACES),
    "period_s": field.whole(LEAST_PERIOD_S, MOST_PERIOD_S, rule=_placed),
    "dwell_s": field.each(field.positive(MOST_PERIOD_S), 0, _MOST_BINS),
    "margin_px": lambda _, document: field.real(1, min(document["capture"]["frame"]["shape"][:2]) / 2),
    "noise": field.record(_NOISE, null=True),
}


def count_field(_manifest: Any, document: Any) -> Field:
    """The field of ``count``: something of the bundle finds the people that are counted."""
    capture = document["capture"]
    if capture is None or (capture["crop"] is None and "detector" not in document):
        return field.record(dict.fromkeys(COUNT, field.ANY), rule=lambda *_: [_NO_FINDER])
    return field.record(COUNT, rule=_countable)


def check_count(count: Any, capture: Any, *, detector: bool = False) -> None:
    """Raise ``BundleRefused`` unless ``count`` says what to count under the checked ``capture``.

    ``detector``: a network of the bundle finds the people.
    """
    document = dict({"capture": capture, "count": count}, **({"detector": {}} if detector else {}))
    field.check(count, "count", count_field, document)


def parse_count(count: Optional[Mapping[str, Any]]) -> Optional[CountRules]:
    """The record of ``count``; None where nothing is counted."""
    if count is None:
        return None
    lines = [Line(line["name"], tuple(line["start"]), tuple(line["end"])) for line in count["lines"]]
    zones = [Zone(zone["name"], [tuple(corner) for corner in zone["corners"]]) for zone in count["zones"]]
    noise = None if count["noise"] is None else CountNoise(**count["noise"])
    return CountRules(lines, zones, count["period_s"], list(count["dwell_s"]), count["margin_px"], noise)


def document_of(rules: CountRules, values: Sequence[Optional[int]]) -> Dict[str, Any]:
    """``lines`` and ``zones`` of a record, by name: ``in`` and ``out``; ``occupancy`` and the list ``dwell``."""
    given = dict(zip(rules.names, values))
    zones: Dict[str, Any] = {}
    for zone in rules.zones:
        zones[zone.name] = {"occupancy": given["zone", zone.name, "occupancy"]}
        if rules.dwell_s:
            bins = range(len(rules.dwell_s) + 1)
            zones[zone.name]["dwell"] = [given["zone", zone.name, "dwell-{}".format(place)] for place in bins]
    lines = {line.name: {what: given["line", line.name, what] for what in ("in", "out")} for line in rules.lines}
    return {"lines": lines, "zones": zones}
