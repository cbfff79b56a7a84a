"""The page docs/results/counting.md and its picture from the record of count_people; no number is typed by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.storage.atomic import write_atomic
from scripts.reproduce.counting import count_people, from_empty
from scripts.reproduce.counting.count_people import DOWN, MIDDLE, SHAPE
from scripts.reproduce.counting.truth import crossings
from scripts.reproduce.pages.rendering import render, write_from

NAME = "counting"
RECORD = count_people.RESULT
PAGE, PICTURE = Path("docs/results/counting.md"), Path("docs/results/counting.svg")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
Record = Mapping[str, Any]


def rows(record: Record) -> Iterator[dict[str, Any]]:
    """For each number of people: scenes, crossings, losses by cause, shares of frames, identities."""
    scenes = record["simulated"]["scenes"]
    for people in sorted({scene["people"] for scene in scenes}):
        of = [scene for scene in scenes if scene["people"] == people]
        causes = sum((Counter(scene["causes"]) for scene in of), Counter())
        total = {key: sum(scene[key] for scene in of) for key in of[0] if isinstance(of[0][key], int)}
        yield {
            **total,
            "people": people,
            "scenes": len(of),
            "right": total["judged"] - total["missed"],
            "causes": ", ".join(f"{cause} {count}" for cause, count in sorted(causes.items())) or "none",
            "exact": total["occupancy_exact"] / total["frames"],
            "nearly": total["occupancy_but_for_the_border"] / total["frames"],
        }


def steps_of(steps: Sequence[Record]) -> Iterator[tuple[str, str]]:
    """Each step from an empty machine, and its minutes: by the clock, and in brackets of the processor."""
    for one in steps:
        step = one["step"] if one["step"] in (from_empty.FETCH, from_empty.HOME_ASSISTANT) else f"`{one['step']}`"
        if one["wall_s"] is None:
            yield step, "runs on"
        else:
            own = f" ({one['processor_s'] / 60:.1f})" if "processor_s" in one else ""
            yield step, f"{one['wall_s'] / 60:.1f}{own}"


def draw(record: Record, target: Path = PICTURE) -> None:
    """The ways of the people of one simulated scene, with its lines, their counts and the zone, as SVG."""
    height, width = SHAPE
    corners = " ".join(f"{column},{row}" for row, column in MIDDLE.corners)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#fff" stroke="#888"/>',
        f'<polygon points="{corners}" fill="#f2f2f2"/>',
    ]
    for line in DOWN:
        (top, left), (bottom, right) = line.start, line.end
        parts.append(f'<line x1="{left}" y1="{top}" x2="{right}" y2="{bottom}" stroke="#888" stroke-dasharray="6 4"/>')
        ways = [one.way for way in record["shown"] for one in crossings(line, way, record["margin_px"])]
        counted = f"in {ways.count(1)}, out {ways.count(-1)}"
        parts.append(f'<text x="{left + 4}" y="{bottom - 6}" font-size="12" fill="#555">{counted}</text>')
    for number, way in enumerate(record["shown"]):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(f"{column},{row}" for row, column in way)
        row, column = way[0]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<circle cx="{column}" cy="{row}" r="4" fill="{colour}"/>')
    write_atomic(target, "\n".join([*parts, "</svg>", ""]).encode())


def page(record: dict[str, Any]) -> str:
    """The page on counting people as Markdown."""
    walk = json.loads(from_empty.RESULT.read_text()) if from_empty.RESULT.is_file() else None
    steps = [] if walk is None else walk["steps"]
    own = sum(one.get("processor_s", 0.0) for one in steps if one["step"] != from_empty.FETCH) / 60
    shown = list(steps_of(steps))
    return render("counting", record=record, rows=list(rows(record)), walk=walk, steps=shown, own=own)


def write() -> None:
    """Write the page and its picture, where the record is."""
    if (found := write_from(RECORD, PAGE, page)) is not None:
        draw(found)
