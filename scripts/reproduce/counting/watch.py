"""A counter that is looked at frame by frame."""

from __future__ import annotations

from edgeveil.edge_runtime.counting.counter import Counter
from edgeveil.edge_runtime.counting.walks import Walk
from edgeveil.edge_runtime.manifest.count import CountRules, Line, Zone
from edgeveil.edge_runtime.manifest.manifest import Crop
from scripts.reproduce.counting.truth import Crossing, Point

SHAPE, FPS, MARGIN = (424, 512), 30, 16.0


class Watch:
    """A counter whose numbers are noted frame by frame: what crossed which line, and who was in the zone."""

    def __init__(self, lines: list[Line], zones: list[Zone], crop: Crop) -> None:
        self.lines, self.frame = lines, -1
        rules = CountRules(lines, zones, 86400, [], MARGIN, None)
        options = {"step_px": crop.step_px, "gone_frames": crop.gone_frames}
        self.counter = Counter(rules, SHAPE, clock=lambda: self.frame / FPS, **options)
        self.counted: dict[str, list[Crossing]] = {line.name: [] for line in lines}
        self.occupancy: list[int] = []
        self.ways: list[list[tuple[Walk, Point]]] = []  # of each frame, (walk, place) of who was seen
        self.restart = self.counter.restart

    def people(self, places: list[Point]) -> None:
        before = list(self.counter._values)
        self.frame += 1
        self.counter.people(places)
        for number, (old, new) in enumerate(zip(before, self.counter._values, strict=True)):
            if number < 2 * len(self.lines) and new > old:
                way = 1 if number % 2 == 0 else -1
                self.counted[self.lines[number // 2].name] += [Crossing(self.frame, way)] * (new - old)
        watched = self.counter._watched.values()
        self.occupancy.append(sum(stay.here for one in watched for stay in one.zones))
        self.ways.append([(walk, walk.place) for walk in self.counter._walks.alive if not walk.missed])
