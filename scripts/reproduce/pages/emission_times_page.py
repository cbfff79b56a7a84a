"""The page docs/results/emission-times.md, on the times at which results leave, from its record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripts.reproduce.pages.rendering import render, write_from

NAME = "emission-times"
RECORD, PAGE = Path("docs/results/bench/emission-times.json"), Path("docs/results/emission-times.md")


def page(record: dict[str, Any]) -> str:
    """The page on the times at which results leave as Markdown."""
    return render("emission-times", record=record)


def write() -> None:
    """Write the page, where its record is."""
    write_from(RECORD, PAGE, page)
