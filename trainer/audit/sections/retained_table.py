"""The table of retained properties, as reports and cards show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KINDS_OF_DATA = (
    ("raw", "raw readings"),
    ("perturbed", "this perturber"),
    ("label_only_mean", "label-only, a class's mean"),
    ("label_only_donor", "label-only, a random reading of the class"),
)


def retained_table(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The table of collateral utility of an audit: attributes, and a row for each kind of data; None where none is."""
    part = document.get("collateral")
    if not part:
        return None
    beside = document["label_only"].get("collateral", {})
    rows = []
    for key, title in KINDS_OF_DATA:
        row = part["perturbed"] if key == "perturbed" else beside.get(key)
        if row:
            rows.append({"title": title, "this": key == "perturbed", **row})
    return {"attributes": part["attributes"], "chance": part["chance"], "rows": rows, "part": part}


def score(value: Mapping[str, Any] | None) -> str:
    """A rate or a correlation with its interval: ``97.1 % [96.0, 98.0]``, ``.82 [.80, .84]``."""
    if value is None:
        return "\N{EN DASH}"
    if "accuracy" in value:
        ends = f"[{100 * value['low']:.1f}, {100 * value['high']:.1f}]"
        return f"{100 * value['accuracy']:.1f} % {ends}"
    if value["low"] is None:
        return f"{value['correlation']:.2f}"
    return f"{value['correlation']:.2f} [{value['low']:.2f}, {value['high']:.2f}]"
