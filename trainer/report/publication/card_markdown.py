"""publication.md: the card of a publication as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgeveil.edge_runtime.formats.plurals import counted
from edgeveil.trainer.report.publication.facts import facts


def text(document: Mapping[str, Any]) -> str:
    """The text of a publication.json."""
    return "\n".join(_lines(facts(document))) + "\n"


def _lines(one: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"# Publication for {one['recipient']}", "", f"{one['size']}. k counts {one['link']}.")
    yield f"About {one['suppressed']} people were left out (to the nearest five)."
    if one["dropped"]:
        yield f"{counted(one['dropped'], 'row was dropped with its frame', 'rows were dropped with their frames')}."
    attack = one["attack"]
    if attack is None:
        yield from ("", one["not_attacked"])
    else:
        yield from ("", f"## {attack['word']}", "", attack["sentence"], "")
        yield from _table(("read from", "best attack found", "right", "chance", "bits", "verdict"), attack["rows"])
        yield from ("", *(f"* {note}" for note in attack["notes"]))
    yield from ("", "## Columns", "")
    yield from _table(("column", "what became of it", "loss"), one["columns"])
    yield from ("", f"Mean loss {one['loss']} (0: as it was; 1: nothing is left).", "")
    yield from _table(("criterion", "asked", "found"), one["criteria"])
    yield from ("", "## People who are alone", "")
    yield from _table(("quasi-identifiers", "before", "after"), one["unique"])
    if one["statistics"] is not None:
        yield from ("", "## Statistics", "", one["statistics"]["sentence"], "")
        yield from _table(("name", "what", "value", "within", "noise", "epsilon"), one["statistics"]["rows"])
    if one["bundle"] is not None:
        yield from ("", "## The bundle that perturbed the frames", "")
        yield from (f"* {name}: {value}" for name, value in one["bundle"])
    yield from ("", "## What is not promised", "", *(f"* {limit}" for limit in one["limits"]))
    yield from ("", *(f"{name}: sha256 {value}" for name, value in one["hashes"]))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    yield from (f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
