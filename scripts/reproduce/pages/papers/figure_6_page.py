"""The page docs/results/figure-6.md from its records; their pictures were drawn with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.storage.atomic import write_atomic
from scripts.reproduce.pages.papers import table_2_cells
from scripts.reproduce.pages.rendering import render
from scripts.reproduce.papers import figure_6

NAME = "figure-6"
RECORDS, PAGE = Path("docs/results/privacy/figure-6"), Path("docs/results/figure-6.md")


def page(records: list[dict[str, Any]]) -> str:
    """The page on figure 6 as Markdown; its pictures were drawn with the records."""
    return render(
        "figure-6",
        records=records,
        kinds=figure_6.NAMES,
        names=table_2_cells.NAMES | {"digits": "Digits of scikit-learn"},
    )


def write() -> None:
    """Write the page, of however many records there are."""
    found = [json.loads(path.read_text()) for path in sorted(RECORDS.glob("*.json"))]
    write_atomic(PAGE, page(found).encode())
