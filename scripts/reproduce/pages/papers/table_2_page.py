"""The page docs/results/table-2.md: Tables 2 and 5 of paper 001, from the records; what is missing is said to be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.storage.atomic import write_atomic
from scripts.reproduce.pages.four_slices_page import noted, of_four
from scripts.reproduce.pages.papers import table_2_cells, table_2_rows
from scripts.reproduce.pages.rendering import render

NAME = "table-2"
RECORDS, PAGE = Path("docs/results/privacy/table-2"), Path("docs/results/table-2.md")
CODEBOOKS = "docs/results/privacy/codebook-{}.json"
FLOORS = Path("docs/results/privacy/floors")


def page(
    records: list[dict[str, Any]], codebooks: dict[str, dict[str, Any]], floors: Sequence[dict[str, Any]] = ()
) -> str:
    """The page on Tables 2 and 5 as Markdown; what is missing in it is said to be."""
    sections = table_2_cells.sections(records, codebooks, floors)
    new = {row["row"] for row in records if of_four(row)}
    old = {f"{row['row']} ({row['data']})" if row["row"] in new else row["row"] for row in records if not of_four(row)}
    which = f": {', '.join(sorted(old))}"
    return noted(render("table-2", sets=sections, made_with=table_2_cells.made_with(records)), *records, which=which)


def codebooks(root: Path = Path()) -> dict[str, dict[str, Any]]:
    """The records of codebooks, by data set."""
    found = {data: root / CODEBOOKS.format(data) for data in table_2_rows.PAPER}
    return {data: json.loads(path.read_text()) for data, path in found.items() if path.is_file()}


def floors(root: Path = Path()) -> list[dict[str, Any]]:
    """The sweeps of AP and of Laplace noise."""
    return [json.loads(path.read_text()) for path in sorted((root / FLOORS).glob("*.json"))]


def write() -> None:
    """Write the page."""
    write_atomic(PAGE, page(table_2_rows.read(RECORDS), codebooks(), floors()).encode())
