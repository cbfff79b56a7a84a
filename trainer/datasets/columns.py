"""Tables as people have them: a CSV or Parquet file by its columns, each of numbers or of text."""

from __future__ import annotations

import csv
import importlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.trainer.datasets.readings import Readings, checked_samples, labelled
from edgeveil.trainer.recipe.data_section import Columns
from edgeveil.trainer.recipe.messages import nearest

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})  # in any case: an empty cell
SEPARATORS = ",;\t"
FEW_CLASSES = 50  # more different numbers than these are a measurement, no class


@dataclass(frozen=True)
class Column:
    """One column: ``values`` (rows,) int64, float64 or text, and which of them are ``missing`` (rows,)."""

    values: np.ndarray
    missing: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> Column:
        return Column(self.values[rows], self.missing[rows])

    @property
    def is_number(self) -> bool:
        """Whether all that is there are numbers."""
        return self.values.dtype.kind in "if"

    def first_text(self) -> str:
        """Where the first cell of text is, for a sentence; empty where there is none."""
        for row, (cell, gone) in enumerate(zip(self.values.tolist(), self.missing, strict=True)):
            if not gone and _number(str(cell)) is None:
                return f', first "{cell}" in row {row + 1}'
        return ""


@dataclass(frozen=True)
class Table:
    """The columns of a file, by name, in the file's order; at least one row."""

    path: Path
    columns: Mapping[str, Column]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(next(iter(self.columns.values())).values)

    def column(self, name: str, of: str) -> Column:
        """The column of that name, for the role ``of``. Raises ``BadInput``."""
        if name not in self.columns:
            raise BadInput(
                f'{self.path}: there is no column "{name}" for {of}{nearest(name, self.columns)}; it has '
                f"{listed(self.columns)}."
            )
        return self.columns[name]

    def classes(self, name: str, of: str) -> np.ndarray:
        """Whole numbers or text (rows,), one class a row. Raises ``BadInput``: no such column, cells missing, numbers
        that are measurements.
        """
        found = self.column(name, of)
        if found.missing.any():
            raise BadInput(
                f'{self.path}: column "{name}" ({of}) has no value in {found.missing.sum()} of {self.rows} rows, first '
                f"in row {int(found.missing.argmax()) + 1}. Fill or drop them."
            )
        if found.values.dtype.kind == "f":
            raise BadInput(
                f'{self.path}: column "{name}" ({of}) has {len(np.unique(found.values))} different numbers with '
                "fractions, and classes were expected. Cut it into classes (numpy.digitize), and name that column."
            )
        return found.values


Cells = dict[str, Sequence[str]]  # the columns of a file by name, each cell as it is written there


def read_table(kind: str, path: Path) -> Table:
    """A ``csv`` or ``parquet`` file. Raises ``BadInput``."""
    return Table(path, {name: _column(cells) for name, cells in read_cells(kind, path).items()})


def read_cells(kind: str, path: Path) -> Cells:
    """The same as text, in which 007 is not 7; an empty text where a cell is null. Raises ``BadInput``."""
    if not path.is_file():
        there = "it is a folder" if path.is_dir() else "there is no such file"
        raise BadInput(f"Expected a table in {path}; {there}. Correct its path.")
    return _parquet(path) if kind == "parquet" else _csv(path)


def listed(names: Iterable[str], *, most: int = 12) -> str:
    """Names for a sentence, cut after ``most``."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f'"{name}"' for name in names[:most]) + more


def _csv(path: Path) -> Cells:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, delimiter=_separator(file.readline()), strict=True)
            file.seek(0)
            names = _checked_names([name.strip() for name in next(rows, [])], path)
            columns = _columns(_whole(rows, len(names), path), len(names))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path} cannot be read as a CSV file ({reason(error)}). Save it as CSV in UTF-8.") from None
    if not columns[0]:
        raise BadInput(f"{path} has names of columns and no rows. Add rows.")
    return dict(zip(names, columns, strict=True))


def _columns(rows: Iterable[Sequence[str]], width: int) -> list[list[str]]:
    """Rows as columns in which equal cells are one text: of a million rows, half a gigabyte less."""
    columns: list[list[str]] = [[] for _ in range(width)]
    known: list[dict[str, str]] = [{} for _ in range(width)]
    for row in rows:
        for column, texts, cell in zip(columns, known, row, strict=True):
            column.append(texts.setdefault(cell, cell))
    return columns


def _separator(line: str) -> str:
    return max(SEPARATORS, key=line.count)


def _checked_names(names: Sequence[str], path: Path) -> Sequence[str]:
    if not names:
        raise BadInput(f"{path} is empty. Expected a first line of column names, then a line for each sample.")
    if all(_number(name) is not None for name in names):
        raise BadInput(f"{path}: the first line holds numbers. Expected the names of the columns there: add them.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or "" in names:
        what = f'the column "{twice[0]}" is there twice' if twice and twice[0] else "a column has no name"
        raise BadInput(f"{path}: {what}. Give every column a name of its own.")
    return names


def _whole(rows: Any, width: int, path: Path) -> Iterator[list[str]]:
    for row in rows:
        if row and len(row) != width:
            raise BadInput(f"{path}: line {rows.line_num} has {len(row)} cells and the first has {width}. Correct it.")
        if row:
            yield row


def _parquet(path: Path) -> Cells:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise BadInput(
            "Parquet files are read with pyarrow, which is not installed: pip install 'edgeveil[parquet]', or save the "
            "table as CSV and name it with csv:FILE."
        ) from None
    with _readable(path, "Parquet"):
        table = parquet.read_table(path)
    if not table.num_rows:
        raise BadInput(f"{path} has no rows. Add rows.")
    names = _checked_names([str(name) for name in table.column_names], path)
    cells = (["" if cell is None else str(cell) for cell in column.to_pylist()] for column in table.columns)
    return dict(zip(names, cells, strict=True))


@contextmanager
def _readable(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # pyarrow's errors are of many kinds
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise BadInput(f"{path} cannot be read as a {what} file ({reason}). Write it again.") from None


def _column(cells: Sequence[str]) -> Column:
    cells = [cell.strip() for cell in cells]
    missing = np.array([cell.lower() in MISSING for cell in cells])
    numbers = [0.0 if gone else _number(cell) for cell, gone in zip(cells, missing, strict=True)]
    if None in numbers or missing.all():
        return Column(np.array(cells), missing)
    values = np.array(numbers, np.float64)
    if (values == np.rint(values)).all() and np.abs(values).max() < 2**53:
        return Column(values.astype(np.int64), missing)
    return Column(values, missing)


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in cell else None


def load_table(kind: str, path: Path, columns: Columns) -> Readings:
    """The samples of a user's own table, ``csv:FILE`` or ``parquet:FILE``, one a row. Raises ``BadInput``.

    Columns that are neither y, z, subject, session nor left out are the features of x, float32, in the file's order.
    """
    table = read_table(kind, path)
    table.column(columns.target or "", "data.columns.target")
    of_roles = labels(table, columns)
    x = features(table, columns)
    return labelled(checked_samples(x, path), "vector", of_roles, path)


def labels(table: Table, columns: Columns) -> dict[str, tuple[str, np.ndarray]]:
    """Column and values (rows,) of each role that has one. Raises ``BadInput``."""
    roles = ((role, getattr(columns, role)) for role in ("target", "sensitive", "subject", "session"))
    return {role: (name, table.classes(name, f"data.columns.{role}")) for role, name in roles if name is not None}


def features(table: Table, columns: Columns) -> np.ndarray:
    """x (rows, features) float32. Raises ``BadInput`` for a feature of text or with cells missing."""
    roles = {columns.target, columns.sensitive, columns.subject, columns.session}
    for name in columns.leave_out or ():
        table.column(name, "data.columns.leave_out")
    names = [name for name in table.columns if name not in roles and name not in (columns.leave_out or ())]
    if not names:
        raise BadInput(f"{table.path}: no column is left for x: all {len(table.columns)} have another role.")
    words = [name for name in names if not table.columns[name].is_number]
    if words:
        whose = "" if columns.subject is not None else " What says whose a row is goes to --subject."
        raise BadInput(
            f"{table.path}: x takes numbers, and {listed(words)} hold{'s' if len(words) == 1 else ''} text"
            f"{table.columns[words[0]].first_text()}. Correct it, leave out with "
            f"{' '.join(f'--leave-out {name!r}' for name in words[:3])}, or encode as numbers.{whose}"
        )
    gone = {name: int(table.columns[name].missing.sum()) for name in names if table.columns[name].missing.any()}
    if gone:
        worst = max(gone, key=lambda name: gone[name])
        raise BadInput(
            f'{table.path}: {len(gone)} of {len(names)} features have empty cells, "{worst}" {gone[worst]} of '
            f"{table.rows} rows. Fill them, drop these rows, or leave the columns out."
        )
    return np.stack([table.columns[name].values for name in names], axis=1).astype(np.float32)


# Recordings: a file each, with a time column and one for each channel; y and z are columns of every file, the same in
# all its rows, or those of a table next to it (``data.labels``), with a column ``file``.


FILE = "file"  # the column of the table that names a recording


@dataclass(frozen=True)
class Recorded:
    """One recording: ``time`` (n,) in seconds, of the column ``clock``, and ``values`` (n, channels)."""

    path: Path
    clock: str
    time: np.ndarray
    values: np.ndarray


def read_recordings(
    folder: Path, columns: Columns, channels: Sequence[str], labels: Path | None
) -> tuple[list[Recorded], dict[str, list[str]]]:
    """The recordings of a folder's CSV files, and of each role that has a column the label of every one.

    Raises ``BadInput``.
    """
    paths = sorted(folder.glob("*.csv")) if folder.is_dir() else []
    paths = [path for path in paths if labels is None or path.resolve() != labels.resolve()]
    if not paths:
        raise BadInput(f"Expected a folder of .csv files, one a recording, at {folder}; there is none.")
    tables = [read_table("csv", path) for path in paths]
    clock = columns.time or ""
    recorded = [
        Recorded(
            table.path,
            clock,
            _numbers(table, clock, "data.columns.time"),
            np.stack([_numbers(table, name, "data.series.channels") for name in channels], axis=1),
        )
        for table in tables
    ]
    beside = None if labels is None else _by_file(read_table("csv", labels))
    roles = ((role, getattr(columns, role)) for role in ("target", "sensitive", "subject"))
    return recorded, {
        role: [_label(role, column, table, beside) for table in tables] for role, column in roles if column is not None
    }


def _numbers(table: Table, name: str, of: str) -> np.ndarray:
    column = table.column(name, of)
    if not column.is_number or column.missing.any():
        raise BadInput(f'{table.path}: the column "{name}" must hold a number in every row. Fill or drop the others.')
    return column.values.astype(np.float64)


def _by_file(table: Table) -> tuple[Table, dict[str, int]]:
    files = [str(one) for one in table.column(FILE, "data.labels").values]
    if len(set(files)) != len(files):
        raise BadInput(f'{table.path}: the column "{FILE}" names a recording twice. Give each one row.')
    return table, {name: row for row, name in enumerate(files)}


def _label(role: str, column: str, table: Table, beside: tuple[Table, dict[str, int]] | None) -> str:
    of = f"data.columns.{role}"
    if beside is None:
        values = np.unique(table.column(column, of).values.astype(str))
        if len(values) != 1:
            raise BadInput(
                f'{table.path}: the column "{column}" has {len(values)} values; a recording has one {role}. Cut it '
                "into a file for each."
            )
        return str(values[0])
    labels, rows = beside
    if table.path.name not in rows:
        raise BadInput(f'{labels.path}: no row has "{table.path.name}" in the column "{FILE}". Add it.')
    return str(labels.column(column, of).values[rows[table.path.name]])
