"""The page docs/results/guards.md: attacks, guards and their tests, from their records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scripts.reproduce.pages.rendering import render, write_from
from scripts.reproduce.record import ROOT
from scripts.reproduce.security import downgrades, guards

NAME = "guards"
RECORD, PAGE = guards.RESULT, Path("docs/results/guards.md")


def page(record: dict[str, Any]) -> str:
    """The page on attacks, guards and their tests as Markdown; the record of downgrades lies beside that of guards."""
    beside = json.loads((ROOT / downgrades.RESULT).read_text())
    return render("guards", record=record, downgrades=beside)


def write() -> None:
    """Write the page, where its record is."""
    write_from(RECORD, PAGE, page)
