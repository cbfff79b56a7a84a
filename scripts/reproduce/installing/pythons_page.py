"""The page docs/results/pythons.md, on the Pythons and platforms of the workstation, from its record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripts.reproduce.installing import workstation_pythons
from scripts.reproduce.pages.rendering import render, write_from

NAME = "pythons"
RECORD, PAGE = workstation_pythons.RESULT, Path("docs/results/pythons.md")


def page(record: dict[str, Any]) -> str:
    """The page on the Pythons and platforms of the workstation as Markdown."""
    wheels = {name: [row for row in record["wheels"] if row["platform"] == name] for name in record["platforms"]}
    without = {name: sorted({one for row in rows for one in row["without"]}) for name, rows in wheels.items()}
    named = {row["python"]: None for row in record["wheels"]}
    return render("pythons", record=record, wheels=wheels, without=without, pythons=list(named))


def write() -> None:
    """Write the page, where its record is."""
    write_from(RECORD, PAGE, page)
