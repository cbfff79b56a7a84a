"""The part of the page on Table 2 that says how much noise y bears: AP and Laplace noise over their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scripts.reproduce.pages.papers.table_2_rows import PAPER, ROWS

Record = Mapping[str, Any]
SHOWN = 5  # rows of a curve at most, besides the chosen one and the first that is below the floor
PAPER_MOST_EPS = 10
NAMES = {"ap": "AP, distance", "laplace": "Laplace noise, eps"}


def section(swept: Sequence[Record], records: Sequence[Record], data: str) -> dict[str, Any]:
    """``floors``, rows of a table, and ``floor_lines``; both empty where nothing was swept.

    ``records`` are those of Table 2: a row that was not trained with what the sweep chose is named.
    """
    mine = [one for one in swept if one["data"] == data]
    rows = [_cells(one, point) for one in mine for point in shown(one)]
    return {"floors": rows, "floor_lines": [_line(one) + _others(one, records) for one in mine]}


def shown(record: Record) -> list[Record]:
    """Points of a curve spread over its length, with the chosen one and the first that keeps too little of y."""
    points, best = record["points"], record["chosen"]
    spread = {round(place * (len(points) - 1) / max(1, SHOWN - 1)) for place in range(SHOWN)}
    spread |= {points.index(best)} if best else set()
    spread |= set(next(([i] for i, one in enumerate(points) if one["target_accuracy"] < record["floor"]), []))
    return [points[place] for place in sorted(spread)]


def _cells(record: Record, point: Record) -> list[str]:
    said = "chosen" if point == record["chosen"] else ""
    if point["target_accuracy"] < record["floor"]:
        said = "below the floor"
    y, z = (f"{100 * point[name]:.1f}" for name in ("target_accuracy", "sensitive_accuracy"))
    return [NAMES[record["kind"]], f"{point['setting']:.3g}", y, z, f"{point['distance']:.2f}", said]


def _line(record: Record) -> str:
    paper, least = PAPER[record["data"]], 100 * record["floor"]
    name = ROWS[record["kind"]].partition(":")[0]
    best = max(record["points"], key=lambda point: point["target_accuracy"])
    most = f"the most that any setting kept is {100 * best['target_accuracy']:.1f}, at {best['setting']:.3g}"
    what = f"* {name}: D_y is right on {100 * record['raw']:.1f} of {record['rows']} raw rows"
    if record["floor"] < paper.floor / 100:
        what += (
            f", which is below the paper's floor of {paper.floor:g}; {most}. The floor here is {least:.1f}, the same "
            f"share of raw as the paper's {paper.floor:g} of {paper.raw[0]:g}."
        )
    else:
        what += f"; the floor is the paper's {least:.1f}."
    if record["chosen"] is None:
        what += f" **No setting keeps it**: {most}."
    elif record["kind"] == "laplace" and record["chosen"]["setting"] > PAPER_MOST_EPS:
        what += f" The paper tries no eps above {PAPER_MOST_EPS}, where y is below the floor here."
    return what


def _others(swept: Record, records: Sequence[Record]) -> str:
    best = swept["chosen"]["setting"] if swept["chosen"] else None
    mine = [one for one in records if (one["data"], one["row"]) == (swept["data"], swept["kind"])]
    others = [str(one["seed"]) for one in mine if best is not None and one["training"].get("setting") != best]
    return f" The table above still has seed {', '.join(others)} with its recipe's own setting." if others else ""
