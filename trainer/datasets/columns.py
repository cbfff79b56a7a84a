"""Tables as people have them: a CSV or Parquet file by its columns, each of numbers or of text."""

from __future__ import annotations

import csv
import importlib
import itertools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.sources.text import SEP, separator
from edgeveil.trainer.datasets.readings import FURTHER
from edgeveil.trainer.recipe.data_section import SETS, Columns
from edgeveil.trainer.recipe.messages import nearest

FEW_CLASSES = 50  # more different numbers than these are a measurement, no class
LOOKED_AT = 200  # lines by which a separator is judged
UNNAMED = "unnamed {}"  # the column at that place, from 1, in whose head nothing stands
_NO_NAME = re.compile(r"unnamed:? \d+|__index_level_\d+__|\.\.\.\d+", re.I)  # here, in pandas, in Parquet and in readr


def nfc(text: str) -> str:
    """In Unicode's composed form: macOS writes names in the other one."""
    return unicodedata.normalize("NFC", text)


@dataclass(frozen=True)
class Column:
    """One column: ``values`` (rows,) of whole numbers, of floats or of text (objects), and which are ``missing``.

    ``texts`` (rows,) are the cells of numbers that are not all there, whole and in their one spelling: 007 is not 7.
    None where a file holds numbers and no text.
    """

    values: np.ndarray
    missing: np.ndarray
    texts: np.ndarray | None = None

    def __getitem__(self, rows: np.ndarray) -> Column:
        return Column(self.values[rows], self.missing[rows], None if self.texts is None else self.texts[rows])

    @property
    def classes(self) -> np.ndarray:
        """Identifiers, classes and codes (rows,): as they are written, never by a number that two of them share."""
        if self.texts is not None:
            return self.texts.astype(str)
        return self.values.astype(str) if self.values.dtype.kind in "fO" else self.values

    @property
    def has_fractions(self) -> bool:
        """Whether it is of numbers that are not all whole."""
        return self.values.dtype.kind == "f" and bool((self.values != np.rint(self.values)).any())

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
    """The columns of a file, by name, in the file's order; at least one row.

    ``arrays`` are the fields with an array or a picture in each row (``Samples`` of ``loaders.formats``); ``test``
    (rows,) bool are the rows that the data keep for the test.
    """

    path: Path
    columns: Mapping[str, Column]
    arrays: Mapping[str, Any] = field(default_factory=dict)
    test: np.ndarray | None = None

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(next(iter(self.columns.values())).values)

    def column(self, name: str, of: str) -> Column:
        """The column of that name, for the role ``of``. Raises ``BadInput``."""
        name = nfc(name)
        if name not in self.columns:
            raise BadInput(
                f'{self.path}: there is no column "{name}" for {of}{nearest(name, self.columns)}; it has '
                f"{listed(self.columns)}."
            )
        return self.columns[name]

    def classes(self, name: str, of: str) -> np.ndarray:
        """Whole numbers or text (rows,), one class a row. Raises ``BadInput``: no such column, cells missing, numbers
        of y or z that are measurements."""
        cells = self.column(name, of)
        if cells.missing.any():
            raise BadInput(
                f'{self.path}: column "{name}" ({of}) has no value in {cells.missing.sum()} of {self.rows} rows, first '
                f"in row {int(cells.missing.argmax()) + 1}. Fill or drop them."
            )
        different = len(np.unique(cells.values)) if cells.has_fractions else 0
        if of.endswith(("target", "sensitive")) and different > FEW_CLASSES:
            raise BadInput(
                f'{self.path}: column "{name}" ({of}) has {different} different numbers with '
                "fractions, and classes were expected. Cut it into classes (numpy.digitize), and name that column."
            )
        return cells.classes

    def unnamed(self, names: Iterable[str]) -> list[str]:
        """A sentence for each of these columns that nothing but its place names: row numbers, as a rule."""
        return [
            f"{self.path}: column {at} has no name, as where pandas or R wrote row numbers. Write the table without "
            f"them (index=False, row.names=FALSE), or leave it out: --leave-out {name!r}."
            for at, name in enumerate(self.columns, 1)
            if name in names and _NO_NAME.fullmatch(name)
        ]


Cells = dict[str, Sequence[str]]  # the columns of a file by name, each cell as it is written there


def read_table(kind: str, path: Path, missing: Iterable[str] | None = None, x: str | None = None) -> Table:
    """A ``csv`` or ``parquet`` file, or what a format reads (``x``: its field of samples); what ``missing`` names is an
    empty cell, and no other word is. Raises ``BadInput``."""
    gone = {"", *map(nfc, missing or ())}
    if kind == "csv":
        return Table(path, {name: _column(cells, gone) for name, cells in read_cells(kind, path).items()})
    if kind != "parquet":
        found: Table = SETS[kind].load().table(path, gone, x)
        return found
    columns = _arrow_columns(_there(path))
    return Table(path, {name: of_arrow(one, gone, f'{path}: column "{name}"') for name, one in columns.items()})


def read_cells(kind: str, path: Path) -> Cells:
    """The same as text, in which 007 is not 7; an empty text where a cell is null. Raises ``BadInput``."""
    if kind != "parquet":
        return _csv(_there(path))
    return {name: _texts(one, f'{path}: column "{name}"') for name, one in _arrow_columns(_there(path)).items()}


def _there(path: Path) -> Path:
    if not path.is_file():
        problem = "it is a folder" if path.is_dir() else "there is no such file"
        raise BadInput(f"Expected a table in {path}; {problem}. Correct its path.")
    return path


def listed(names: Iterable[str], *, most: int = 12) -> str:
    """Names for a sentence, cut after ``most``."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f'"{name}"' for name in names[:most]) + more


def _csv(path: Path) -> Cells:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            declared = SEP.fullmatch(file.readline().strip("\r\n"))
            start = file.tell() if declared else 0
            file.seek(start)
            mark = declared[1] if declared else separator(list(itertools.islice(iter(file.readline, ""), LOOKED_AT)))
            file.seek(start)
            rows = csv.reader(file, delimiter=mark, strict=True)
            names = _checked_names(next(filter(None, rows), []), path)
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
            if cell not in texts:
                texts[cell] = nfc(cell)
            column.append(texts[cell])
    return columns


def _checked_names(cells: Sequence[str], path: Path) -> Sequence[str]:
    given = [nfc(cell.strip()) for cell in cells]
    if not any(given):
        raise BadInput(f"{path} is empty. Expected a first line of column names, then a line for each sample.")
    if all(_number(name) is not None for name in given if name):
        raise BadInput(f"{path}: the first line holds numbers. Expected the names of the columns there: add them.")
    names = [name or UNNAMED.format(at) for at, name in enumerate(given, 1)]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise BadInput(f'{path}: the column "{twice[0]}" is there twice. Give every column a name of its own.')
    return names


def _whole(rows: Any, width: int, path: Path) -> Iterator[list[str]]:
    first = rows.line_num + 1
    for row in rows:
        if row and len(row) != width:
            r = (
                " R writes row names without a head: row.names=FALSE."
                if rows.line_num == first and len(row) == width + 1
                else ""
            )
            raise BadInput(
                f"{path}: line {rows.line_num} has {len(row)} cells and the first has {width}. Correct it.{r}"
            )
        if row:
            yield row


def library(module: str, what: str, extra: str, instead: str = "") -> Any:
    """The module that reads ``what``. Raises ``BadInput`` with the line that installs it where it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise BadInput(
            f"{what} are read with {name}, which is not installed: pip install 'edgeveil[{extra}]'{instead}."
        ) from None


def clause(error: Exception) -> str:
    """What a library says of a file, in one line."""
    return str(error).splitlines()[0][:120] if str(error).strip() else type(error).__name__


def _arrow_columns(path: Path) -> dict[str, Any]:
    instead = ", or save the table as CSV and name it with csv:FILE"
    parquet = library("pyarrow.parquet", "Parquet files", "parquet", instead)
    try:
        table = parquet.read_table(path)
    except Exception as error:  # pyarrow's errors are of many kinds
        raise BadInput(f"{path} cannot be read as a Parquet file ({clause(error)}). Write it again.") from None
    if not table.num_rows:
        raise BadInput(f"{path} has no rows. Add rows.")
    names = _checked_names([str(name) for name in table.column_names], path)
    return dict(zip(names, table.columns, strict=True))


def of_arrow(column: Any, gone: Collection[str], where: str) -> Column:
    """Numbers as they are stored, all else by its different texts. Raises ``BadInput``, which names the row."""
    kind = str(column.type)
    if re.fullmatch(r"u?int\d+|float|double", kind):
        missing = np.asarray(column.is_null()) if column.null_count else np.zeros(len(column), bool)
        values = np.asarray(column.fill_null(0) if column.null_count else column)
        if (numbers := _numeric(values, missing, gone)) is not None:
            return numbers
    with suppress(Exception):  # a type of which pyarrow makes no dictionary, or a cell that cannot be read
        coded = column if kind.startswith("dictionary") else column.dictionary_encode()
        coded = coded.unify_dictionaries().combine_chunks()
        texts = [*_texts(coded.dictionary, where), ""]
        return _coded(texts, np.asarray(coded.indices.fill_null(len(texts) - 1)), gone)
    return _column(_texts(column, where), gone)


def column_of(values: Sequence[Any] | np.ndarray, gone: Collection[str], where: str) -> Column:
    """The column of a value for each row: numbers as they are, all else by its texts, None and NaN as missing.

    Raises ``BadInput`` for what is no text."""
    if not isinstance(values, np.ndarray) and {type(one) for one in values} in ({int}, {float}):
        with suppress(OverflowError):
            values = np.array(values, np.int64 if type(values[0]) is int else np.float64)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        values = values.astype(np.float32) if values.dtype == np.float16 else values
        if (numbers := _numeric(values, np.zeros(len(values), bool), gone)) is not None:
            return numbers
    return _column(_as_texts(values.tolist() if isinstance(values, np.ndarray) else values, where), gone)


def _numeric(values: np.ndarray, missing: np.ndarray, gone: Collection[str]) -> Column | None:
    """Numbers (rows,) as a column; None where a word for nothing is a number, or one of them has no place in it."""
    if any(_number(word) is not None for word in gone):
        return None
    least, most = values.min(), values.max()  # NaN where one is
    if values.dtype.kind == "f" and np.isnan(most):
        missing = missing | np.isnan(values)
        values = np.where(missing, values.dtype.type(0), values)
        least, most = values.min(), values.max()
    most = max(abs(least.item()), abs(most.item()))
    if missing.all() or not math.isfinite(most) or (values.dtype == np.uint64 and most >= 2**63):
        return None
    return Column(values.astype(np.int64) if _is_whole(values) else values, missing)


def _texts(column: Any, where: str) -> list[str]:
    """The cells of a column of pyarrow's, empty where there is no value. Raises ``BadInput``, which names the row."""
    return _as_texts(_values(column), where)


def _as_texts(cells: Iterable[Any], where: str) -> list[str]:
    found: list[str] = []
    try:
        for cell in cells:
            gone = cell is None or cell != cell  # NaN
            found.append("" if gone else nfc(cell.decode() if isinstance(cell, bytes) else str(cell)))
    except Exception as error:  # as above, and bytes that are no text
        raise BadInput(
            f"{where}, row {len(found) + 1}: the cell cannot be read ({type(error).__name__}). Write the column as "
            "text or as numbers."
        ) from None
    return found


def _values(column: Any) -> Iterator[Any]:
    """As Python has them, else as text (Python has no nanoseconds), else one after the other, up to the faulty one."""
    for read in (column.to_pylist, lambda: column.cast("string").to_pylist()):
        with suppress(Exception):
            yield from read()
            return
    for cell in column:
        yield cell.as_py()


def _column(cells: Sequence[str], gone: Collection[str]) -> Column:
    place = {cell: number for number, cell in enumerate(dict.fromkeys(cells))}
    return _coded([*place], np.fromiter(map(place.__getitem__, cells), np.int64, len(cells)), gone)


def _coded(texts: Sequence[str], codes: np.ndarray, gone: Collection[str]) -> Column:
    """The column whose cells are ``texts`` at the places ``codes`` (rows,)."""
    texts = [text.strip() for text in texts]
    absent = np.array([text in gone for text in texts])
    numbers = [0.0 if gone else _number(text) for text, gone in zip(texts, absent, strict=True)]
    cells, missing = np.array(texts, object), absent[codes]
    used = np.bincount(codes, minlength=len(texts)) > 0  # of a dictionary, perhaps not all
    if missing.all() or any(number is None for number, one in zip(numbers, used, strict=True) if one):
        return Column(cells[codes], missing)
    values = np.array([number or 0.0 for number in numbers], np.float64)
    values = values.astype(np.int64) if _is_whole(values[used]) else values
    shown = values.tolist()
    same = values.dtype.kind == "i" and all(str(shown[at]) == texts[at] for at in np.flatnonzero(used))
    return Column(values[codes], missing, None if same else cells[codes])


def _is_whole(values: np.ndarray) -> bool:
    """Whether int64 has each of them, exactly."""
    if values.dtype.kind == "f" and (values[:LOOKED_AT] != np.rint(values[:LOOKED_AT])).any():
        return False  # as a rule, at once
    return values.dtype.kind != "f" or bool((values == np.rint(values)).all() and np.abs(values).max() < 2**53)


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in cell else None


def labels(table: Table, columns: Columns) -> dict[str, tuple[str, np.ndarray]]:
    """Column and values (rows,) of each role that has one; of a further label the role is ``FURTHER`` and its name.
    Raises ``BadInput``."""
    roles = _roles(columns, "target", "sensitive", "subject", "session")
    return {role: (name, table.classes(name, f"data.columns.{role}")) for role, name in roles.items()}


def _roles(columns: Columns, *named: str) -> dict[str, str]:
    """The column of each role that has one: of those ``named``, and of further labels."""
    roles = {role: getattr(columns, role) for role in named if getattr(columns, role) is not None}
    return roles | {f"{FURTHER}{name}": column for name, column in (columns.also or {}).items()}


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


def recordings_at(kind: str, folder: Path) -> list[Path]:
    """The CSV files of a folder by name, without hidden ones, such as those that macOS puts next to each; or the files
    of a format."""
    if kind != "csv":
        found: list[Path] = SETS[kind].load().files(folder)
        return found
    there = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in there if path.suffix.lower() == ".csv" and not path.name.startswith("."))


def read_recordings(
    kind: str, folder: Path, columns: Columns, channels: Sequence[str], labels: Path | None
) -> tuple[list[Recorded], dict[str, list[str]]]:
    """The recordings of a folder's files, and of each role that has a column the label of every one.

    Raises ``BadInput``.
    """
    paths = [path for path in recordings_at(kind, folder) if labels is None or path.resolve() != labels.resolve()]
    if not paths:
        raise BadInput(f"Expected a folder of .csv files, one a recording, at {folder}; there is none.")
    tables = [read_table(kind, path, columns.missing, columns.x) for path in paths]
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
    beside = None if labels is None else _by_file(read_table("csv", labels, columns.missing))
    roles = _roles(columns, "target", "sensitive", "subject")
    return recorded, {role: [_label(role, name, table, beside) for table in tables] for role, name in roles.items()}


def _numbers(table: Table, name: str, of: str) -> np.ndarray:
    column = table.column(name, of)
    if not column.is_number or column.missing.any():
        raise BadInput(f'{table.path}: the column "{name}" must hold a number in every row. Fill or drop the others.')
    return column.values.astype(np.float64)


def _by_file(table: Table) -> tuple[Table, dict[str, int]]:
    files = table.column(FILE, "data.labels").classes.astype(str).tolist()
    if len(set(files)) != len(files):
        raise BadInput(f'{table.path}: the column "{FILE}" names a recording twice. Give each one row.')
    return table, {name: row for row, name in enumerate(files)}


def _label(role: str, column: str, table: Table, beside: tuple[Table, dict[str, int]] | None) -> str:
    of = f"data.columns.{role}"
    if beside is None:
        values = np.unique(table.classes(column, of).astype(str))
        if len(values) != 1:
            raise BadInput(
                f'{table.path}: the column "{column}" has {len(values)} values; a recording has one {role}. Cut it '
                "into a file for each."
            )
        return str(values[0])
    labels, rows = beside
    row = rows.get(nfc(table.path.name))
    if row is None:
        raise BadInput(f'{labels.path}: no row has "{table.path.name}" in the column "{FILE}". Add it.')
    return str(labels.classes(column, of)[row])
