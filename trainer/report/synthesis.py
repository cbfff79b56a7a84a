"""What docs/results/privacy/synthesis.json says: donors, centroids and a decoder for the codes of one release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainer.report import table_2
from trainer.report.table_2_cells import number, percent

WAYS = {"donor": "donor", "centroid": "centroid", "decoder": "decoder: nobody's record"}


def lines(record: Mapping[str, Any], data: str) -> Iterator[str]:
    """The Markdown table of one data set, a row for each way; nothing where none was measured."""
    mine = [row for row in record["rows"] if row["data"] == data]
    found = [row for row in mine if "refused" not in row]
    if not found:
        return
    known = found[0]["collateral"]["attributes"]
    likeness = list(dict.fromkeys(name for row in found for name in row["collateral"]["kept"]))
    head = ["x' is", "seeds", "counting attack", "trained on x': y"]
    head += [name if about["classes"] else f"{name} (correlation)" for name, about in known.items()]
    head += [f"kept: {name}" for name in likeness] + ["told from real, %"]
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for way, title in WAYS.items():
        rows = [row for row in found if row["synthesis"] == way]
        if rows:
            yield f"| {' | '.join([title, *_cells(rows, list(known), likeness)])} |"
    for row in mine:
        if "refused" in row:
            yield f"\n{WAYS[row['synthesis']].partition(':')[0].capitalize()}, seed {row['seed']}: {row['refused']}"


def _cells(rows: list[Any], known: list[str], likeness: list[str]) -> Iterator[str]:
    yield ", ".join(str(row["seed"]) for row in rows)
    yield percent(table_2.spread([row["attack"] for row in rows]))
    shown = [row["collateral"]["perturbed"] for row in rows]
    yield percent(table_2.spread([one["train_on_it"]["y"] for one in shown]))
    for name in known:
        rate = "accuracy" in shown[0]["train_on_it"]["attributes"][name]
        yield (percent if rate else number)(table_2.property_of(shown, "train_on_it", name))
    for name in likeness:
        values = [row["collateral"]["kept"].get(name) for row in rows]
        yield number(table_2.spread(values, "correlation")) if all(values) else "-"
    yield percent(table_2.spread([one["told_apart"] for one in shown]))
