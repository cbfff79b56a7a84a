"""The note on pages with records from before there was a slice ``attack``."""

from __future__ import annotations

import json
from typing import Any

NOTE = (
    "> **Recorded with three slices.** These perturbers had a third of the rows to train on, not a quarter, and\n"
    "> adversaries learned on rows that trained the perturber, except where other folds of the test slice are named.\n"
    "> Both flatter the perturber; see [four slices](../explanation/how-privacy-is-measured.md#four-slices).\n"
)


def noted(page: str, *records: Any) -> str:
    """``page`` with the note below its title, if any of its records does not say what adversaries learned on."""
    if all('"learned_on"' in json.dumps(record) for record in records):
        return page
    title, rest = page.split("\n", 1)
    return f"{title}\n\n{NOTE}{rest}"
