"""bench.html: the tables and pictures of benchmarks as one page in one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edgeveil.trainer.report.card_page import environment
from edgeveil.trainer.report.pictures import svg


def render(text: str, pictures: Mapping[str, tuple[str, bytes]]) -> str:
    """The page of ``text``, the Markdown of ``bench.tables``; every value is escaped.

    ``pictures`` are words and SVG by title.
    """
    shown = [{"title": title, "says": says, "image": svg(data)} for title, (says, data) in pictures.items()]
    return environment().get_template("bench.html").render(blocks=list(_blocks(text)), pictures=shown)


def _blocks(text: str) -> Iterator[dict[str, Any]]:
    """Headings, paragraphs and tables, which is all that there is; a table is named by the heading above it."""
    title = ""
    for number, block in enumerate(part.strip() for part in text.split("\n\n") if part.strip()):
        if block.startswith("|"):
            head, _, *rows = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in block.splitlines())
            yield {"kind": "table", "name": title, "id": f"t{number}", "head": head, "rows": rows}
        elif block.startswith("## "):
            title = block.removeprefix("## ")
            yield {"kind": "heading", "text": title}
        elif title:  # what stands before the first heading, the page says itself
            yield {"kind": "text", "text": block.replace("**", "").replace("`", "")}
