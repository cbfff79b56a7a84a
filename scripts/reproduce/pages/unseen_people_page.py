"""What docs/results/privacy/unseen.json says of people who were never seen, put together over splits (section 6.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.measures.intervals import mean
from scripts.reproduce.pages.rendering import render, write_from

NAME = "unseen-people"
RECORD, PAGE = Path("docs/results/privacy/unseen.json"), Path("docs/results/unseen-people.md")

SETS = {"depth": "Depth (UTD-MHAD)", "faces": "Faces (Extended Yale B)"}
ROWS = {
    "original": "original: x itself",
    "prgan": "PR-GAN",
    "label-only": "label-only: the predicted y alone",
}
RATES = ("target", "fixed", "transfer", "worst_adaptive")


def sections(record: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What the page shows of each data set, by its title; no splits where nothing was recorded."""
    return {title: _section(record.get(data, {})) for data, title in SETS.items()}


def over_splits(values: Sequence[float]) -> str:
    """A mean in % with its 95 % interval over splits; a single split has none."""
    found = mean(np.asarray(values))
    if not np.isfinite(found.low):
        return f"{100 * found.estimate:.1f}"
    return f"{100 * found.estimate:.1f} [{100 * max(found.low, 0.0):.1f}, {100 * min(found.high, 1.0):.1f}]"


def _section(record: Mapping[str, Any]) -> dict[str, Any]:
    splits = list(record.get("splits", {}).values())
    if not splits:
        return {"splits": 0}
    people = splits[0]["people"]
    return {
        "splits": len(splits),
        "settings": record["settings"],
        "seen": people["seen"],
        "new": people["new"],
        "chance": over_splits([one["rows"]["prgan"]["chance"]["majority"] for one in splits]),
        "training": f"{np.mean([sum(one['training_s'].values()) for one in splits]):.0f}",
        "rows": [[title, *(_rate(splits, row, rate) for rate in RATES)] for row, title in ROWS.items()],
        "each": [_each(who, one["rows"]["prgan"]) for who, one in record["splits"].items()],
    }


def _rate(splits: Sequence[Mapping[str, Any]], row: str, rate: str) -> str:
    shown = over_splits([one["rows"][row][rate]["accuracy"] for one in splits])
    return f"**{shown}**" if rate == "worst_adaptive" else shown


def _each(who: str, row: Mapping[str, Any]) -> list[str]:
    cells = [who if len(who) < 40 else f"{who[:36]} ..."]
    for name in ("target", "fixed", "worst_adaptive"):
        rate = row[name]
        cells.append(f"{100 * rate['accuracy']:.1f} [{100 * rate['low']:.1f}, {100 * rate['high']:.1f}]")
    return [*cells, row["worst_adaptive"]["name"]]


def page(record: dict[str, Any]) -> str:
    """The page on people who were never seen as Markdown."""
    return render("unseen-people", sets=sections(record))


def write() -> None:
    """Write the page, where its record is."""
    write_from(RECORD, PAGE, page)
