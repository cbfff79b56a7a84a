"""Rows and sentences of the page on what is in use today, from its record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.reproduce.pages.rendering import render, write_from

NAME = "peers"
RECORD, PAGE = Path("docs/results/privacy/peers.json"), Path("docs/results/peers.md")

WELL, HARDLY = 0.5, 0.1  # of the way from guessing to what an attack on rows before reads


def way(row: Mapping[str, Any]) -> float:
    """How far the strongest attack goes from guessing (0) to what an attack on rows before reads (1).

    It is the best attack found, or the transfer classifier where that reads more.
    """
    chance, other = max(row["chance"].values()), transfer(row)
    most = max(row["worst_adaptive"]["accuracy"], 0.0 if other is None else other["accuracy"])
    return float((most - chance) / (row["raw"]["sensitive"]["accuracy"] - chance))


def transfer(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The row of the transfer classifier, if it ran."""
    return next((one for one in row["adversaries"] if one["kind"] == "transfer"), None)


def sections(record: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """For each data set what its rows have in common, and the cells of its table."""
    found = {}
    for name, about in record["sets"].items():
        first = about["rows"][0]
        found[name] = {
            "data": first["data"],
            "test_rows": first["test"]["rows"],
            "raw": first["raw"],
            "guess_y": first["utility"]["chance"],
            "guess_z": max(first["chance"].values()),
            "families": about["families"],
            "wall_s": about["wall_s"],
            "rows": [_cells(row) for row in about["rows"]],
        }
    return found


def _cells(row: Mapping[str, Any]) -> list[str]:
    worst, useful, other = row["worst_adaptive"], row["utility"], transfer(row)
    return [
        row["peer"],
        row["strength"],
        rate(useful["after"]),
        "-" if useful["trained_on_before"] is None else rate(useful["trained_on_before"]),
        "-" if other is None else rate(other),
        rate(worst),
        worst["name"],
        f"{100 * way(row):.0f} %",
        row["verdict"]["word"],
    ]


def rate(value: Mapping[str, Any]) -> str:
    """An accuracy in % with its 95 % interval."""
    return f"{100 * value['accuracy']:.1f} [{100 * value['low']:.1f}, {100 * value['high']:.1f}]"


def sentences(record: Mapping[str, Any]) -> Iterator[str]:
    """For each data set: which mechanisms are read well, in part, and hardly."""
    for name, about in record["sets"].items():
        for least, most, words in (
            (WELL, 9.0, f"read well (at least {100 * WELL:.0f} % of the way from guessing to rows before)"),
            (HARDLY, WELL, f"read in part ({100 * HARDLY:.0f} to {100 * WELL:.0f} %)"),
            (-9.0, HARDLY, f"hardly read (below {100 * HARDLY:.0f} %)"),
        ):
            rows = [row for row in about["rows"] if least <= way(row) < most]
            named = "; ".join(f"{row['peer']}, {row['strength']} ({row['verdict']['word']})" for row in rows)
            yield f"{name}, {words}: {named or 'none'}."
        more = [
            f"{row['peer']}, {row['strength']}"
            for row in about["rows"]
            if (other := transfer(row)) is not None and other["low"] > row["worst_adaptive"]["high"]
        ]
        if more:
            yield f"{name}, read better by the transfer classifier than by those who retrained: {'; '.join(more)}."


def page(record: dict[str, Any]) -> str:
    """The page on what is in use today as Markdown."""
    return render("peers", record=record, sets=sections(record), sentences=list(sentences(record)))


def write() -> None:
    """Write the page, where its record is."""
    write_from(RECORD, PAGE, page)
