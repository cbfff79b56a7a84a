"""A table published for one recipient: checked as a whole, and there as a whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.storage.atomic import take_name, write_atomic, writing
from edgeveil.trainer.datasets.columns import Cells
from edgeveil.trainer.pseudonyms.master_key import MasterKey
from edgeveil.trainer.pseudonyms.vault import Publication, Vault
from edgeveil.trainer.publish import reader, statement, table_files
from edgeveil.trainer.publish.actions import Drop, Keep, Pseudonym, Quasi, Sensitive, Target
from edgeveil.trainer.publish.anonymity.criteria import Criteria
from edgeveil.trainer.publish.anonymity.criteria import Sensitive as Asked
from edgeveil.trainer.publish.anonymity.frequency import Frequencies
from edgeveil.trainer.publish.anonymity.generalise import Column, Generalised, generalise
from edgeveil.trainer.publish.anonymity.levels import encode
from edgeveil.trainer.publish.draft import is_prose
from edgeveil.trainer.publish.people import identifiers, numbers, sensitive_values
from edgeveil.trainer.publish.plan import Plan
from edgeveil.trainer.publish.pseudonymise import pseudonymise, require_vault
from edgeveil.trainer.publish.rest_of_statement import rest_of_statement
from edgeveil.trainer.report.publication.card_html import render as card_page
from edgeveil.trainer.report.publication.card_markdown import text as card_text
from edgeveil.trainer.results import locked


@dataclass(frozen=True)
class Prepared:
    """A table under its plan: ``names`` are identifiers in one spelling, by column; ``person`` (rows,) are numbers."""

    plan: Plan
    cells: Cells
    names: Mapping[str, Sequence[str]]
    person: np.ndarray
    columns: Sequence[Column]
    criteria: Criteria
    sensitive: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, plan: Plan, cells: Cells) -> Prepared:
        """Check and encode a table. Raises ``BadInput`` with column and row, never with a value."""
        plan.require_columns(cells)
        for name in {**plan.of(Keep), **plan.of(Target), **plan.of(Sensitive)}:
            _refuse_prose(name, cells[name])
        whose: dict[str, Pseudonym | Drop] = {**plan.of(Pseudonym)}
        people = plan.anonymity.people
        if people is not None and people not in whose:
            whose[people] = plan.of(Drop)[people]
        names = {name: identifiers(name, cells[name], one.normalise) for name, one in whose.items()}
        rows = len(next(iter(cells.values())))
        person = np.arange(rows) if people is None else numbers(names[people])
        columns = [
            Column(name, *encode(name, cells[name], one.hierarchy), one.weight) for name, one in plan.of(Quasi).items()
        ]
        values, asked = {}, {}
        for name, one in plan.of(Sensitive).items():
            values[name], levels = sensitive_values(name, cells[name], one, person)
            asked[name] = Asked(levels, one.distinct_l, one.entropy_l, one.t, one.distance)
        return cls(plan, cells, names, person, columns, Criteria(plan.anonymity.k, asked), values)

    def generalised(self, *, suppressed: int = 0) -> Generalised:
        """As ``generalise``, by the plan, of whose people so many were ``suppressed`` before."""
        asked = self.plan.anonymity
        return generalise(
            self.columns,
            link=asked.link,
            person=self.person,
            sensitive=self.sensitive,
            criteria=self.criteria,
            budget=asked.suppress - suppressed,
            method=asked.method,
        )

    def frequencies(self) -> Frequencies:
        """The raw quasi-identifiers."""
        levels, codes = [one.levels for one in self.columns], [one.codes for one in self.columns]
        return Frequencies.of(self.plan.anonymity.link, levels, codes, self.person, self.sensitive)


def publish(
    table: Path, plan: Plan, key: MasterKey, out: Path, *, recipient: str, vault: Vault | None = None
) -> dict[str, Any]:
    """Write ``table``, ``publication.json``, ``publication.md`` and ``card.html`` to the folder ``out``; returns the
    statement.

    Raises ``BadInput``; ``LimitNotMet`` where the reader finds less than was asked for, or where attacks may learn more
    than the plan allows. Then nothing is published and the vault is as it was. The vault is lasting before the folder
    has its name: what a crash leaves between the two is a vault that knows of too much, never a pseudonym that nobody
    can reveal.
    """
    if not recipient.strip():
        raise BadInput("A recipient was expected; the name is empty. One publication has one recipient.")
    require_vault(plan, vault)
    prepared = Prepared.of(plan, table_files.read(table))
    with locked(out, "publish table"), _whole(out) as folder:
        shown = prepared.generalised()
        rows = row_order(key, recipient, plan.text.encode() + table.read_bytes(), len(prepared.person))
        rows = rows[shown.rows[rows]]
        with vault.change() if vault is not None else nullcontext():
            names = {name: [column[row] for row in rows] for name, column in prepared.names.items()}
            made = pseudonymise(plan, names, key, recipient, vault)
            file = folder / f"table{table.suffix.lower()}"
            table_files.write(file, published_columns(prepared, shown, made.columns, rows))
            found = reader.found(file, plan, prepared.person[rows].tolist())
            reader.require(plan, found)
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            document = statement.document(prepared.frequencies(), plan, shown, found, prepared.columns)
            document |= {"recipient": recipient, "table": {"file": file.name, "sha256": digest, "rows": len(rows)}}
            document |= rest_of_statement(plan, prepared.cells, prepared.person, shown, [file], rows)
            write_atomic(folder / "publication.md", card_text(document).encode())
            write_atomic(folder / "card.html", card_page(document).encode())
            text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"
            write_atomic(folder / "publication.json", text.encode())
            _sync(file)
            if vault is not None:
                title = hashlib.sha256(text.encode()).hexdigest()
                vault.record({Publication(title, scope): salts for scope, salts in made.salts.items()})
    return document


def published_columns(
    prepared: Prepared, shown: Generalised, pseudonyms: Mapping[str, Sequence[str]], rows: np.ndarray
) -> dict[str, Sequence[str]]:
    """What is written, column by column in the plan's order, for the published rows in their new order."""
    place = np.cumsum(shown.rows) - 1  # of a row among those published
    columns: dict[str, Sequence[str]] = {}
    for name in prepared.plan.published:
        if name in pseudonyms:
            columns[name] = pseudonyms[name]
        elif name in shown.labels:
            columns[name] = shown.labels[name][place[rows]].tolist()
        else:
            columns[name] = [prepared.cells[name][row] for row in rows]
    return columns


def row_order(key: MasterKey, recipient: str, what: bytes, rows: int) -> np.ndarray:
    """The rows in an order that does not depend on when they were taken, and cannot be undone without the key.

    It is another for each plan and table, so that equal places of two publications are not equal rows.
    """
    secret = key.derive("row order", recipient, hashlib.sha256(what).hexdigest())
    drawn = [hashlib.blake2b(row.to_bytes(8, "big"), key=secret, digest_size=16).digest() for row in range(rows)]
    return np.array(sorted(range(rows), key=lambda row: drawn[row]), np.int64)


def _refuse_prose(name: str, cells: Sequence[str]) -> None:
    for row, cell in enumerate(cells):
        if is_prose(cell):
            raise BadInput(
                f'Column "{name}", row {row + 1}: free text is not published, for anything may stand in it. Drop the '
                "column, or replace its texts by a few names."
            )


@contextmanager
def _whole(out: Path) -> Iterator[Path]:
    """A folder beside ``out`` that takes its name when the block ends, and is removed where it raises."""
    if os.path.lexists(out) and not (out.is_dir() and not any(out.iterdir())):
        raise BadInput(f"{out} is not empty: a publication is never written over another. Give another folder.")
    out = Path(os.path.realpath(out))  # a link to an empty folder stays one
    folder = out.absolute().with_name(f".{out.name}-{os.urandom(6).hex()}")
    try:
        with writing(out):
            folder.mkdir(mode=0o755)
            yield folder
            _sync(folder)
            take_name(folder, out)
            _sync(out.absolute().parent)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
