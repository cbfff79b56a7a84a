"""A probe's row in the audit document: a figure, or why there is none."""

from __future__ import annotations

import math
from typing import Any

from edgeveil.trainer.audit.document import short
from edgeveil.trainer.measures.intervals import Interval


def row(name: str, value: Interval, *, n: int, chance: float | None, meaning: str) -> dict[str, Any]:
    """A figure with its interval over ``n`` rows or pairs, and what knowing y alone gives."""
    if not math.isfinite(value.estimate):
        return not_run(name, f"{n} rows or pairs are too few or too similar for a figure: give more data")
    ends = dict(zip(("value", "low", "high"), map(short, value), strict=True))
    return {"name": name, **ends, "n": n, "chance": chance, "meaning": meaning}


def not_run(name: str, reason: str) -> dict[str, Any]:
    """Why this probe did not run, and what it needs."""
    return {"name": name, "not_run": reason}
