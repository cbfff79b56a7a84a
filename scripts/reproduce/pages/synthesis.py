"""What docs/results/privacy/synthesis.json says: donors, pool, centroids and decoder for the codes of one codebook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from scripts.reproduce.pages.papers import table_2_rows
from scripts.reproduce.pages.papers.table_2_cells import number, percent

WAYS = {
    "donor": "donor: typical samples",
    "receiver": "receiver's pool: any samples",
    "centroid": "centroid",
    "decoder": "decoder: no real record",
}
BESIDE = {
    "raw": "raw samples",
    "label_only_mean": "label-only, as mean",
    "label_only_donor": "label-only, as random donor",
}


def lines(record: Mapping[str, Any], data: str) -> Iterator[str]:
    """The Markdown table of one data set, a row for each way; nothing where none was measured."""
    mine = [row for row in record["rows"] if row["data"] == data]
    found = [row for row in mine if row["synthesis"] in WAYS and "refused" not in row]
    if not found:
        return
    known = _properties([row["collateral"] for row in found])
    likeness = list(dict.fromkeys(name for row in found for name in row["collateral"]["kept"] if name in known))
    head = ["x' is", "seeds", "counting attack", "trained on x': y", *known.values()]
    head += [f"kept: {name}" for name in likeness] + ["told from real, %"]
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for way, title in WAYS.items():
        if rows := [row for row in found if row["synthesis"] == way]:
            yield f"| {' | '.join([title + _of_three(rows), *_cells(rows, list(known), likeness)])} |"
    beside = [row for row in mine if row["synthesis"] == "beside"]
    for key, title in BESIDE.items() if beside else ():
        shown = [row["collateral"][key] for row in beside]
        told = [one["told_apart"] for one in shown if "told_apart" in one]
        cells = [title + _of_three(beside), _seeds(beside), "-", *_trained(shown, list(known)), *["-"] * len(likeness)]
        yield f"| {' | '.join([*cells, percent(table_2_rows.spread(told)) if told else '-'])} |"
    for row in mine:
        if "refused" in row:
            yield f"\n{WAYS[row['synthesis']].partition(':')[0].capitalize()}, seed {row['seed']}: {row['refused']}"


def _of_three(rows: Sequence[Mapping[str, Any]]) -> str:
    """A mark for rows that were recorded with three slices."""
    return "" if all("attack" in row.get("slices", ()) for row in rows) else " (three slices)"


def _properties(found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Name and head of each property that y does not settle: its chance, and a star where the recipe asks for it."""
    heads = {}
    for name, about in found[0]["attributes"].items():
        star = "*" if about["named_by_recipe"] else ""
        chance = float(np.mean([one["chance"][name] for one in found])) if about["classes"] else 0.0
        if chance < 1:
            heads[name] = f"{name}{star} " + (f"(chance {100 * chance:.1f})" if about["classes"] else "(correlation)")
    return heads


def _cells(rows: Sequence[Mapping[str, Any]], known: Sequence[str], likeness: Sequence[str]) -> Iterator[str]:
    yield _seeds(rows)
    yield percent(table_2_rows.spread([row["attack"] for row in rows]))
    shown = [row["collateral"]["perturbed"] for row in rows]
    yield from _trained(shown, known)
    for name in likeness:
        values = [row["collateral"]["kept"].get(name) for row in rows]
        yield number(table_2_rows.spread(values, "correlation")) if all(values) else "-"
    yield percent(table_2_rows.spread([one["told_apart"] for one in shown]))


def _seeds(rows: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(str(row["seed"]) for row in rows)


def _trained(shown: Sequence[Mapping[str, Any]], known: Sequence[str]) -> Iterator[str]:
    """y and each property as read by networks that were trained on it, over seeds."""
    yield percent(table_2_rows.spread([one["train_on_it"]["y"] for one in shown]))
    for name in known:
        rate = "accuracy" in shown[0]["train_on_it"]["attributes"][name]
        yield (percent if rate else number)(table_2_rows.property_of(shown, "train_on_it", name))
