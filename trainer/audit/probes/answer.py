"""A probe's row in the audit document: a figure, or why there is none."""

from __future__ import annotations

import math
from typing import Any

from edgeveil.trainer.measures.intervals import Interval


def row(name: str, value: Interval, *, n: int, chance: float | None, meaning: str) -> dict[str, Any]:
    """A figure with its interval over ``n`` rows or pairs, and what knowing y alone gives."""
    if not math.isfinite(value.estimate):
        return not_run(name, f"{n} rows or pairs were too few or too much alike for a figure: give more data")
    ends = {
        key: round(float(end), 6) if math.isfinite(end) else None
        for key, end in zip(("value", "low", "high"), value, strict=True)
    }
    return {"name": name, **ends, "n": n, "chance": chance, "meaning": meaning}


def not_run(name: str, reason: str) -> dict[str, Any]:
    """Why this was not asked, and what would be needed."""
    return {"name": name, "not_run": reason}
