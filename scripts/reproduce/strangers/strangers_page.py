"""What docs/results/strangers.json says, as the cells of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.reproduce.pages.rendering import render, write_from
from scripts.reproduce.strangers import strangers
from scripts.reproduce.strangers.public_data import SETS

NAME = "strangers"
RECORD, PAGE = strangers.RESULT, Path("docs/results/strangers.md")


def rows(record: Mapping[str, Any]) -> Iterator[list[str]]:
    """The cells of each data set."""
    for row in record["rows"]:
        attack, kept = row.get("attack"), row.get("kept")
        sample = " x ".join(map(str, row.get("sample", ())))
        busy = "" if row["verdict"] == "VALID" else " (other work ran)"
        yield [
            row["name"],
            row["package"],
            f"{row['keeps']}, {row['hides']}",
            row.get("kind", "-"),
            f"{row['rows']:,}; {sample}" if "rows" in row else "-",
            _percent(row.get("forest")),
            row.get("architecture", "-"),
            _percent(row.get("d_y")),
            _percent(kept and kept["accuracy"]),
            f"{_percent(attack['accuracy'])} ({_percent(row['guess'])})" if attack else "-",
            f"{row['minutes']:.1f} ({row['processor_minutes']:.1f}){busy}",
            _outcome(row),
        ]


def missing(record: Mapping[str, Any]) -> list[str]:
    """The data sets without a row."""
    done = {row["name"] for row in record["rows"]}
    return [name for name in SETS if name not in done]


def _outcome(row: Mapping[str, Any]) -> str:
    last = row["steps"][-1]
    if row["outcome"] == "sealed":
        return f"sealed; {row['sent']} sent"
    said = " ".join(last["said"].split()).replace("|", "/")
    return f"{row['outcome']}, `{last['step']}` with {last['code']}: {said}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def page(record: dict[str, Any]) -> str:
    """The page on data that nobody here made as Markdown."""
    return render("strangers", record=record, rows=rows(record), missing=missing(record))


def write() -> None:
    """Write the page, where its record is."""
    write_from(RECORD, PAGE, page)
