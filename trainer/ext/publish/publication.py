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
from edgeveil.edge_runtime.sources.images import list_pictures
from edgeveil.edge_runtime.sources.npz import count_rows
from edgeveil.edge_runtime.util.atomic import take_name, write_atomic, writing
from edgeveil.trainer.datasets.columns import Cells
from edgeveil.trainer.ext.publish import plan as statement
from edgeveil.trainer.ext.publish import reader, table_files
from edgeveil.trainer.ext.publish.actions import Drop, Keep, Pseudonym, Quasi, Sensitive, Target
from edgeveil.trainer.ext.publish.attack import rest_of_statement
from edgeveil.trainer.ext.publish.frequency import Criteria, Frequencies
from edgeveil.trainer.ext.publish.frequency import Sensitive as Asked
from edgeveil.trainer.ext.publish.generalise import Column, Generalised, generalise
from edgeveil.trainer.ext.publish.levels import GONE, Levels, as_date, as_number, encode, normal
from edgeveil.trainer.ext.publish.master_key import MasterKey, Step, normalised
from edgeveil.trainer.ext.publish.plan import Plan
from edgeveil.trainer.ext.publish.published import numbers
from edgeveil.trainer.ext.publish.reader import pseudonymise, require_vault
from edgeveil.trainer.ext.publish.recordings import PARQUET, FrameNames, matched, open_parquet
from edgeveil.trainer.ext.publish.vault import Publication, Vault
from edgeveil.trainer.report.card_markdown import render as card_page
from edgeveil.trainer.report.card_markdown import text as card_text
from edgeveil.trainer.results import locked

# A plan to fill in: every column of a table with its type, its number of values, and no action yet.


WORDS = 4  # a text of more words than these is prose, in which anything may stand
LETTERS = 64
_TEMPLATE = Path(__file__).with_name("plan.template").read_text(encoding="utf-8")
_NO_FRAMES = """\
# [frames]            # for recordings next to the table (edgeveil publish archive)
# key = ""            # the column that names a row's frame: a file, or a number from 0
# most_dropped = 0.0  # share of the frames that may be lost
"""
_FRAMES = """\
[frames]
{key}  # {why}
most_dropped = 0.0  # share of the frames that may be lost
"""


def draft(table: Path, cells: Cells, *, k: int = 10, frame_columns: Sequence[str] = ()) -> str:
    """The plan's TOML. ``cells`` are those of ``table``; of recordings, ``frame_columns`` each name all frames."""
    import tomli_w

    columns = {
        name: {"type": type_of(values), "values": len(set(values) - {""}), "action": ""}
        for name, values in cells.items()
    }
    frames = _frames(frame_columns) if frame_columns else _NO_FRAMES
    return _TEMPLATE.format(table=table.name, k=k, frames=frames, columns=tomli_w.dumps({"columns": columns}))


def names_of(uri: str) -> FrameNames:
    """What a table calls the frames, without a bundle: their files in the folder, or numbers. Raises ``BadInput``."""
    kind, _, where = uri.partition(":")
    if kind == "images":
        return list_pictures(where)[1]
    if uri.startswith(PARQUET):
        with open_parquet(Path(where)) as file:
            return range(file.metadata.num_rows)
    return range(count_rows(where))


def frame_columns(table: Path, cells: Cells, names: FrameNames) -> list[str]:
    """The columns that name every frame once, in the table's order.

    Raises ``BadInput`` where none does: by row or frame, where a column names half of them at least.
    """
    wanted = set(map(str, names))
    shared = {column: len(wanted.intersection(values)) for column, values in cells.items()}
    whole = [column for column, many in shared.items() if many == len(wanted) == len(cells[column])]
    if whole:
        return whole
    nearest = max(shared, key=shared.__getitem__)
    if 2 * shared[nearest] >= len(wanted):
        matched(cells[nearest], names, nearest)
    what = f"numbers from 0 to {len(wanted) - 1}" if isinstance(names, range) else "names of files in the folder"
    raise BadInput(f"No column of {table.name} says which frame is a row's: expected one with {what}. Add it.")


def _frames(columns: Sequence[str]) -> str:
    """The plan's table for recordings; where several columns could be it, none is chosen."""
    import tomli_w

    key, why = columns[0], 'names every frame once; its action is "drop"'
    if len(columns) > 1:
        key, why = "", f'choose one: {", ".join(columns)} name every frame once; its action is "drop"'
    return _FRAMES.format(key=tomli_w.dumps({"key": key}).strip(), why=why)


def type_of(values: Sequence[str]) -> str:
    """``number``, ``date``, ``text``, ``prose`` where some cell is a sentence or long, or ``empty``."""
    filled = {value for value in values if value.strip()}
    if not filled:
        return "empty"
    if all(as_number(value) is not None for value in filled):
        return "number"
    if all(as_date(value) is not None for value in filled):
        return "date"
    return "prose" if any(is_prose(value) for value in filled) else "text"


def is_prose(value: str) -> bool:
    """Whether a cell holds more than a name."""
    return len(value.split()) > WORDS or len(value) > LETTERS


# Whose rows these are: identifiers in one spelling, and one sensitive value for each person.


def identifiers(column: str, cells: Sequence[str], steps: Sequence[Step]) -> list[str]:
    """Each cell in its one spelling. Raises ``BadInput`` with column and row of one that is empty, or no date."""
    known: dict[str, str] = {}
    for row, cell in enumerate(cells):
        if cell not in known:
            try:
                known[cell] = normalised(cell, steps)
            except ValueError as error:
                raise BadInput(
                    f'Column "{column}", row {row + 1}: an identifier was expected that {list(steps)} can normalise; '
                    f"there, {error}. Correct the cell, or drop the row."
                ) from None
    return [known[cell] for cell in cells]


def sensitive_values(
    column: str, cells: Sequence[str], asked: Sensitive, person: np.ndarray
) -> tuple[np.ndarray, Levels]:
    """The code (people,) of each person's value, and the levels of the values.

    Raises ``BadInput`` with column and row where a person has two: what a class tells of a person would not be one
    number.
    """
    codes, levels = _plain([*map(normal, cells)]) if asked.hierarchy is None else encode(column, cells, asked.hierarchy)
    values = np.full(int(person.max()) + 1, -1)
    values[person[::-1]] = codes[::-1]  # the first row of each
    other = values[person] != codes
    if other.any():
        raise BadInput(
            f'Column "{column}", row {int(other.argmax()) + 1}: a sensitive column has one value for each person, and '
            "this one had another before. Publish one row a person, or drop the column."
        )
    return values, levels


def _plain(cells: Sequence[str]) -> tuple[np.ndarray, Levels]:
    """Values without any order."""
    distinct, codes = np.unique(np.asarray(cells, object).astype(str), return_inverse=True)
    count = len(distinct)
    return codes, Levels((np.arange(count),), (tuple(map(str, distinct)),), (np.zeros(count),), None)


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
        emptied = {name: one.missing for name, one in plan.columns.items() if one.missing}
        cells = {**cells, **{n: [GONE if cell in of else cell for cell in cells[n]] for n, of in emptied.items()}}
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
        values, criteria = {}, {}
        for name, one in plan.of(Sensitive).items():
            values[name], levels = sensitive_values(name, cells[name], one, person)
            gone = next((code for code, cell in zip(values[name][person], cells[name], strict=True) if not cell), None)
            gone = None if one.count_missing else gone
            criteria[name] = Asked(levels, one.distinct_l, one.entropy_l, one.t, one.distance, gone)
        return cls(plan, cells, names, person, columns, Criteria(plan.anonymity.k, criteria), values)

    def generalised(self, *, suppressed: int = 0) -> Generalised:
        """As ``generalise``, by the plan, of whose people so many were ``suppressed`` before."""
        settings = self.plan.anonymity
        return generalise(
            self.columns,
            link=settings.link,
            person=self.person,
            sensitive=self.sensitive,
            criteria=self.criteria,
            budget=settings.suppress - suppressed,
            method=settings.method,
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
    has its name: what a crash leaves between the two is a vault that knows of too much, never a pseudonym that no one
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
            pseudonyms = pseudonymise(plan, names, key, recipient, vault)
            file = folder / f"table{table.suffix.lower()}"
            table_files.write(file, published_columns(prepared, shown, pseudonyms.columns, rows))
            measures = reader.found(file, plan, prepared.person[rows].tolist())
            reader.require(plan, measures)
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            document = statement.statement_document(prepared.frequencies(), plan, shown, measures, prepared.columns)
            document["limits"] += statement.formulas(reader.columns_of([file]))
            document |= {"recipient": recipient, "table": {"file": file.name, "sha256": digest, "rows": len(rows)}}
            document |= rest_of_statement(plan, prepared.cells, prepared.person, shown, [file], rows)
            write_atomic(folder / "publication.md", card_text(document).encode())
            write_atomic(folder / "card.html", card_page(document).encode())
            text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"
            write_atomic(folder / "publication.json", text.encode())
            _sync(file)
            if vault is not None:
                title = hashlib.sha256(text.encode()).hexdigest()
                vault.record({Publication(title, scope): salts for scope, salts in pseudonyms.salts.items()})
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
    """A folder next to ``out`` that takes its name when the block ends, and is removed where it raises."""
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
