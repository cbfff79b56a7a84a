"""How well people are counted: crossings, occupancy and identities, against what is known of each scene.

Simulated: scenes of ``simulate:depth`` with one to three people, whose heads are known in every frame. Replayed: the
740 frames of GOTPD1 (gotpd_overhead_depth below EDGEVEIL_DATA), one person, whose head people marked. Recorded is
docs/results/counting/counts.json; the page and its picture are made from it.

    python -m scripts.reproduce.counting.count_people
"""

from __future__ import annotations

import os
from collections import Counter as Tally
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.capture.crops import MOST_SEEN, Capture
from edgeveil.edge_runtime.capture.person_finder import HEAD_MM, Finder, Floor
from edgeveil.edge_runtime.counting.walks import Walk
from edgeveil.edge_runtime.counting.zones import inside
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.count import Line, Zone
from edgeveil.edge_runtime.manifest.manifest import Manifest, parse
from edgeveil.edge_runtime.sources.simulated_scene import Scene
from edgeveil.trainer.measures.intervals import wilson
from edgeveil.trainer.recipe.schema import Recipe
from scripts.reproduce import record
from scripts.reproduce.counting.truth import Crossing, Point, crossings, match, nearest
from scripts.reproduce.counting.watch import FPS, MARGIN, SHAPE, Watch

RESULT = Path("docs/results/counting/counts.json")
RECORDING = "gotpd_overhead_depth/gotpd_seq_106x128.npz"
DOWN = [Line(f"column-{at}", (0, at), (424, at)) for at in (100, 200, 312, 412)]
MIDDLE = Zone("middle", [(0, 100), (0, 412), (424, 412), (424, 100)])
GRID = [Line(f"column-{at}", (0, at), (424, at)) for at in range(96, 417, 40)]
GRID += [Line(f"row-{at}", (at, 0), (at, 512)) for at in range(92, 333, 40)]
NEAR_PX = 35.0  # half of a body at the height of a head: within it, a body is on both sides of a line
SAME_S = 1.0  # between a crossing and its count


def _manifest() -> Manifest:
    capture = Recipe.find("overhead-prgan").capture
    return parse({"input": {"name": "x", **capture.input()}, "capture": capture.manifest()})


def simulated(seed: int, people: int, seconds: int) -> dict[str, Any]:
    """One scene: crossings judged, right, missed by cause and in excess, occupancy by frames, identities."""
    manifest, scene = _manifest(), Scene(seed=seed, people=people)
    watch = Watch(DOWN, [MIDDLE], manifest.capture.crop)
    capture, passages, heads = Capture(manifest, watch), {}, []
    for frame in range(seconds * FPS):
        capture.frames(RawFrame(scene.frame(frame / FPS), frame))
        here = {}
        for lane, walker in ((lane, lane.at(frame / FPS)) for lane in scene._lanes):
            if walker is not None:
                here[(id(lane), lane._start)] = scene.pixel(walker)
        heads.append(here)
        for passage, head in here.items():
            passages.setdefault(passage, [None] * (seconds * FPS))[frame] = head
    tally: Tally[str] = Tally()
    causes: Tally[str] = Tally()
    for line in DOWN:
        true, judged, may = [], set(), []
        # A head may be above or below the picture while its body is in it.
        longer = line._replace(start=(-SHAPE[0], line.start[1]), end=(2 * SHAPE[0], line.end[1]))
        for way in passages.values():
            may += crossings(longer, way, 0.01)
            for one in crossings(longer, way, MARGIN):
                true.append(one)
                row = way[one.frame][0]
                if NEAR_PX <= row <= SHAPE[0] - NEAR_PX and one.frame < (seconds - SAME_S) * FPS:
                    judged.add(one)
        found = match(true, watch.counted[line.name], int(SAME_S * FPS))
        missed = [one for one in found.missed if one in judged]
        extra = match(may, watch.counted[line.name], int(SAME_S * FPS)).extra
        tally.update(judged=len(judged), not_judged=len(true) - len(judged), missed=len(missed), extra=len(extra))
        causes.update(_cause(one, line, passages, watch) for one in missed)
    exact, nearly = _occupancy(watch, heads)
    return {
        "seed": seed,
        "people": people,
        "frames": len(heads),
        **tally,
        "causes": dict(causes),
        "occupancy_exact": exact,
        "occupancy_but_for_the_border": nearly,
        **_identities(watch, heads),
        "ways": watch.ways,
    }


def _cause(one: Crossing, line: Line, passages: dict[Any, list[Point | None]], watch: Watch) -> str:
    """Why a crossing was missed: nobody was found there, two people were found as one, or two were mixed up."""
    way = next(way for way in passages.values() if one in crossings(line, way, MARGIN))
    around = range(max(0, one.frame - 10), min(len(way), one.frame + 10))
    seen = [any(nearest(place, {0: way[f]}, 60) == 0 for _, place in watch.ways[f]) for f in around if way[f]]
    if sum(seen) < len(seen) / 2:
        return "not found"
    return "mixed up with another"


def _occupancy(watch: Watch, heads: list[dict[Any, Point]]) -> tuple[int, int]:
    """Frames whose occupancy was exact, and those right but for people within half a body of the zone's border."""
    exact = nearly = 0
    for counted, here in zip(watch.occupancy, heads, strict=True):
        true = sum(inside(MIDDLE.corners, head) for head in here.values())
        edges = [min(abs(c - 100), abs(c - 412), abs(r), abs(SHAPE[0] - r)) for r, c in here.values()]
        open_to_both = sum(edge <= NEAR_PX for edge in edges)
        exact += counted == true
        nearly += true - open_to_both <= counted <= true + open_to_both
    return exact, nearly


def _identities(watch: Watch, heads: list[dict[Any, Point]]) -> dict[str, int]:
    """How often a walk went over to another person, and a person in the picture to another walk."""
    person_of: dict[Walk, Any] = {}
    walk_of: dict[Any, Walk] = {}
    switches = breaks = 0
    for ways, here in zip(watch.ways, heads, strict=True):
        for walk, place in ways:
            person = nearest(place, here, 60)
            if person is None:
                continue
            switches += person_of.get(walk, person) != person
            breaks += walk_of.get(person, walk) != walk
            person_of[walk], walk_of[person] = person, walk
    return {"passages": len(walk_of), "switches": switches, "breaks": breaks}


def replay(file: Path) -> tuple[Watch, list[Point | None]]:
    """The recording, watched with the lines of ``GRID``; and the marked heads, None where none is."""
    manifest = _manifest()
    crop = manifest.capture.crop
    with np.load(file) as data:
        depth, marks, present = data["depth_mm"], data["head_xy"], data["head_present"]
    heads = [(float(y), float(x)) if there else None for (x, y), there in zip(marks, present, strict=True)]
    # The file has every fourth pixel, from the third: those that the finder looks at.
    floor = Floor(depth.shape[1:], crop.floor_frames)
    find = Finder(
        SHAPE,
        focal_px=crop.focal_px,
        apart=crop.apart_mm,
        least_height=crop.least_height_mm,
        least_pixels=crop.least_pixels,
    )
    for picture in depth:  # somebody is there in every frame: one turn for the floor alone
        floor.update(picture)
    watch = Watch(GRID, [], crop)
    for picture in depth:
        watch.people([one.place for one in find(picture, floor.height(picture), HEAD_MM, MOST_SEEN)])
    return watch, heads


def replayed(file: Path) -> dict[str, Any]:
    """The recording: crossings that the marked heads decide, and what was counted."""
    watch, heads = replay(file)
    right, missed, extra, counted, grazes = 0, [], [], 0, 0
    for line in GRID:
        must = crossings(line, heads, MARGIN + NEAR_PX)
        # A head leads its body: within half a body of the margin either is right.
        may = crossings(line, heads, 0.01)
        found = watch.counted[line.name]
        one = match(must, found, int(1.5 * FPS))
        right += len(one.right)
        missed += [[line.name, *lost] for lost in one.missed]
        extra += [[line.name, *more] for more in match(may, found, int(1.5 * FPS)).extra]
        counted += len(found)
        grazes += len(found) - len(one.right)
    return {
        "frames": len(heads),
        "marked": sum(head is not None for head in heads),
        "lines": len(GRID),
        "judged": right + len(missed),
        "right": right,
        "missed": missed,
        "extra": extra,
        "counted": counted,
        "of_these_grazes": grazes - len(extra),
        "people_found": {str(n): c for n, c in sorted(Tally(len(ways) for ways in watch.ways).items())},
    }


def main() -> None:
    """Parse, measure, record."""
    script = record.Script(__file__, __doc__, out=RESULT)
    script.add_argument("--scenes", type=int, default=21)
    script.add_argument("--seconds", type=int, default=24)
    asked = script.parse_args()
    file = Path(os.environ.get("EDGEVEIL_DATA", "")) / RECORDING
    if not file.is_file():
        raise BadInput(f"{RECORDING} was expected in the folder that EDGEVEIL_DATA names, and is not there.")
    scenes = [simulated(seed, 1 + seed % 3, asked.seconds) for seed in range(asked.scenes)]
    shown = _shown(scenes[1].pop("ways"))
    for scene in scenes:
        scene.pop("ways", None)
    judged, missed, extra, frames = (
        sum(scene[key] for scene in scenes) for key in ("judged", "missed", "extra", "frames")
    )
    document = {
        "schema": 1,
        "kind": "counting",
        "fps": FPS,
        "margin_px": MARGIN,
        "near_px": NEAR_PX,
        "simulated": {
            "judged": judged,
            "missed": missed,
            "extra": extra,
            "right": 1 - (missed + extra) / judged,
            "right_95": wilson(1 - (missed + extra) / judged, judged),
            "occupancy_exact": sum(scene["occupancy_exact"] for scene in scenes) / frames,
            "occupancy_but_for_the_border": sum(scene["occupancy_but_for_the_border"] for scene in scenes) / frames,
            "scenes": scenes,
        },
        "replayed": replayed(file),
        "shown": shown,
    }
    record.write(asked.out, script.made_by(asked), document)


def _shown(ways: list[list[tuple[Walk, Point]]], most_s: int = 15) -> list[list[list[float]]]:
    """The ways of one scene for the picture: places of each walk, in order."""
    found: dict[Walk, list[list[float]]] = {}
    for frame in ways[: most_s * FPS]:
        for walk, (row, column) in frame:
            found.setdefault(walk, []).append([round(row, 1), round(column, 1)])
    return [way for way in found.values() if len(way) > 5]


if __name__ == "__main__":
    record.run(main)
