"""The manifest's ``count``: what is counted of the people before a camera; absent where nothing is.

Places are [row, column] in pixels of the sensor's frame. A record has ``values`` whole numbers, in the order of
``names``: of each line ``in`` and ``out``, of each zone ``occupancy`` and, with ``dwell_s``, a number for each bin.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from edgeveil.edge_runtime.util.validate import each, identifier, positive, real, record, refuse, whole

LEAST_PERIOD_S = 10  # a shorter one would say when one person passed
MOST_PERIOD_S = 86400
MICRO = 10**6  # steps of epsilon in 1
MOST_EACH = 100
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
        found = [("line", line.name, what) for line in self.lines for what in ("in", "out")]
        return found + [("zone", zone.name, what) for zone in self.zones for what in ["occupancy"] + dwell]

    @property
    def sensitivity(self) -> int:
        """The most by which one track changes a record with noise: the sum over all its numbers."""
        most = self.noise.most_each if self.noise else 1
        return 2 * most * len(self.lines) + (1 + (most if self.dwell_s else 0)) * len(self.zones)


def check_count(count: Any, capture: Any, *, detector: bool = False) -> None:
    """Raise ``BundleRefused`` unless ``count`` says what to count under the checked ``capture``.

    ``detector``: a network of the bundle finds the people.
    """
    record(count, "count", ("lines", "zones", "period_s", "dwell_s", "margin_px", "noise"))
    if capture is None or (capture["crop"] is None and not detector):
        refuse("bad-value", "count", "expected capture.crop or a detector, which finds the people that are counted")
    shape = capture["frame"]["shape"][:2]
    lines = each(count["lines"], "count.lines", lambda line, at: _check_line(line, at, shape), 0, _MOST_PLACES)
    zones = each(count["zones"], "count.zones", lambda zone, at: _check_zone(zone, at, shape), 0, _MOST_PLACES)
    for kind, names in (("lines", lines), ("zones", zones)):
        if len(set(names)) != len(names):
            refuse("redefined-value", "count." + kind, "two have the same name")
    if not lines and not zones:
        refuse("bad-count", "count", "expected a line or a zone")
    whole(count["period_s"], "count.period_s", LEAST_PERIOD_S, MOST_PERIOD_S)
    edges = each(count["dwell_s"], "count.dwell_s", lambda edge, at: positive(edge, at, MOST_PERIOD_S), 0, _MOST_BINS)
    if sorted(set(edges)) != edges:
        refuse("bad-value", "count.dwell_s", "expected rising seconds")
    if edges and not zones:
        refuse("bad-value", "count.dwell_s", "expected none without a zone to stay in")
    real(count["margin_px"], "count.margin_px", 1, min(shape) / 2)
    if count["noise"] is not None:
        noise = record(count["noise"], "count.noise", ("micro_epsilon", "most_each", "most_micro_epsilon"))
        one = whole(noise["micro_epsilon"], "count.noise.micro_epsilon", 1, 100 * MICRO)
        whole(noise["most_each"], "count.noise.most_each", 1, MOST_EACH)
        whole(noise["most_micro_epsilon"], "count.noise.most_micro_epsilon", one)


def parse_count(count: Optional[Mapping[str, Any]]) -> Optional[CountRules]:
    """The record of ``count``; None where nothing is counted."""
    if count is None:
        return None
    lines = [Line(line["name"], tuple(line["start"]), tuple(line["end"])) for line in count["lines"]]
    zones = [Zone(zone["name"], [tuple(corner) for corner in zone["corners"]]) for zone in count["zones"]]
    noise = None if count["noise"] is None else CountNoise(**count["noise"])
    return CountRules(lines, zones, count["period_s"], list(count["dwell_s"]), count["margin_px"], noise)


def _check_line(line: Any, at: str, shape: Sequence[int]) -> str:
    record(line, at, ("name", "start", "end"))
    start, end = (_check_point(line[key], "{}.{}".format(at, key), shape) for key in ("start", "end"))
    if start == end:
        refuse("bad-value", at, "expected a line between two places")
    return identifier(line["name"], at + ".name")


def _check_zone(zone: Any, at: str, shape: Sequence[int]) -> str:
    record(zone, at, ("name", "corners"))
    corners = each(
        zone["corners"], at + ".corners", lambda point, place: _check_point(point, place, shape), 3, _MOST_CORNERS
    )
    if not _area(corners):
        refuse("bad-value", at + ".corners", "expected a polygon with an area")
    return identifier(zone["name"], at + ".name")


def _check_point(point: Any, at: str, shape: Sequence[int]) -> List[float]:
    found: List[float] = each(point, at, real, 2, 2)
    if not (0 <= found[0] <= shape[0] and 0 <= found[1] <= shape[1]):
        refuse("bad-value", at, "expected [row, column] in the picture of {}, got {}".format(shape, found))
    return found


def _area(corners: Sequence[Sequence[float]]) -> float:
    """Twice the area of a polygon, with a sign."""
    after = [*corners[1:], corners[0]]
    return sum(one[0] * two[1] - one[1] * two[0] for one, two in zip(corners, after))


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
