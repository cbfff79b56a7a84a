"""The page docs/results/publishing.md from the records beside it; no number is typed by hand."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.storage.atomic import write_atomic
from scripts.reproduce.pages.rendering import render
from scripts.reproduce.publishing import (
    anonymity,
    archive_cost,
    counted_by_others,
    linkage,
    newcomer,
    pseudonym_attack,
    pseudonyms,
    ray_leaks,
    whole_archive,
)

NAME = "publishing"
PAGE = Path("docs/results/publishing.md")
SCRIPTS = (
    anonymity,
    linkage,
    pseudonyms,
    newcomer,
    whole_archive,
    pseudonym_attack,
    archive_cost,
    ray_leaks,
    counted_by_others,
)
RECORDS = tuple(script.RESULT for script in SCRIPTS)

Record = Mapping[str, Any]


def brute_force(record: Record) -> Iterator[dict[str, Any]]:
    """The settings, with what is asked in words."""
    for row in record["brute_force"]:
        asked = ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in row["asked"].items())
        yield {**row, "asked": asked or "-", "found": "equal" if row["held"] else "not equal"}


def losses(record: Record) -> Iterator[dict[str, Any]]:
    """Each method at each setting, with its accuracy where it was measured."""
    for row in record["losses"]:
        yield {**row, "accuracy": accuracy(row.get("accuracy"))}


def accuracy(found: Mapping[str, float] | None) -> str:
    """In % with its 95 % interval; - where it was not measured."""
    if found is None:
        return "-"
    return f"{100 * found['accuracy']:.1f} [{100 * found['low']:.1f}, {100 * found['high']:.1f}]"


def attacks(record: Record) -> Iterator[dict[str, Any]]:
    """A row for each table and knowledge: the attacker's chance for each number of known visits, and the largest."""
    for name, table in record["tables"].items():
        for knows, found in table["attacks"].items():
            chances = [f"{one['estimate']:.4f} [{one['low']:.4f}, {one['high']:.4f}]" for one in found]
            yield {"table": name, "knows": knows, "chances": chances, "largest": max(one["largest"] for one in found)}


def claims(record: Record, counted: Record) -> list[tuple[str, str, str]]:
    """(claim of the slides, held or not, why). ``counted`` is of ``newcomer``."""
    ten = {(row["quasi_identifiers"], row["method"]): row["loss"] for row in record["losses"] if row["k"] == 10}
    (eight,) = (row for row in record["pruning"] if row["quasi_identifiers"] == 8)
    return [
        (
            "k-anonymity can lead to severe resolution loss",
            "held for full-domain generalisation, not for Mondrian",
            f"mean loss at k = 10 and 5 / 8 quasi-identifiers: {ten[5, 'incognito']:.3f} / {ten[8, 'incognito']:.3f} "
            f"by Incognito, {ten[5, 'mondrian']:.3f} / {ten[8, 'mondrian']:.3f} by Mondrian",
        ),
        (
            "Incognito is greedy",
            "not held" if all(row["held"] for row in record["brute_force"]) else "open",
            f"it finds what brute force finds, here with {eight['checked']:,} of {eight['nodes']:,} nodes checked; "
            "what is NP-hard is the best recoding cell by cell",
        ),
        (
            "ZIP code, sex and date of birth identify 87 % of Americans",
            "cited, not reproduced",
            "that census is not here; in Adult "
            + ", ".join(f"{row['share']:.1%} of rows are alone by {_which(row)}" for row in record["unique"]),
        ),
        (
            "36, then 37 children: exact counts give the newcomer away",
            "held; with noise not",
            f"at epsilon {counted['epsilon']:g} the best guess is right {_guess(counted)} of the time",
        ),
    ]


def _guess(counted: Record) -> str:
    right = counted["guess"]
    return f"{right['right']:.1%} [{right['low']:.1%}, {right['high']:.1%}]"


def _which(row: Record) -> str:
    columns = row["columns"]
    return ", ".join(columns) if len(columns) < 4 else f"{len(columns)} attributes"


def held(record: Record, *names: str) -> str:
    """Whether checks of a record were held."""
    return "held" if all(record["checks"][name] for name in names) else "**not held**"


def page(
    record: dict[str, Any],
    linked: dict[str, Any],
    keyed: dict[str, Any],
    counted: dict[str, Any],
    whole: dict[str, Any],
    attacked: dict[str, Any],
    cost: dict[str, Any],
    leaks: dict[str, Any],
    counted_again: dict[str, Any],
) -> str:
    """The page on publishing as Markdown."""
    return render(
        "publishing",
        anonymity=record,
        linkage=linked,
        pseudonyms=keyed,
        newcomer=counted,
        publish=whole,
        attack=attacked,
        cost=cost,
        leaks=leaks,
        counted_again=counted_again,
        us_a_frame=statistics.median(cost["us_a_frame"]),
        held=held,
        claims=claims(record, counted),
        brute_force=list(brute_force(record)),
        losses=list(losses(record)),
        attacks=list(attacks(linked)),
        raw=accuracy(record["raw"]),
    )


def write() -> None:
    """Write the page, where all its records are."""
    if all(path.is_file() for path in RECORDS):
        write_atomic(PAGE, page(*(json.loads(path.read_text()) for path in RECORDS)).encode())
