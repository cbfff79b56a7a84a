"""``csv:FILE`` and ``arff:FILE``, or ``-`` for standard input: a vector a line, in blocks, in constant memory.

One fast parser takes all lines of a block together. Where it fails, each line is parsed alone, and a bad one is refused
by its number and its fault, never by its text; the stream continues.
"""

import contextlib
import csv
import re
import sys
import unicodedata
import warnings
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, SourceFailed
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.columns import Encoder, reader_of
from edgeveil.edge_runtime.manifest.manifest import Sampling
from edgeveil.edge_runtime.sources import arff
from edgeveil.edge_runtime.sources.arff import SubjectColumn
from edgeveil.edge_runtime.sources.base import Sensor, Source, now_ns

READ = 1 << 18  # bytes at most in one read; a slow stream gives what it has
LONGEST = 1 << 24  # bytes of a line: beyond it this is no text of vectors
MARK = b"\xef\xbb\xbf"  # of UTF-8, before the first line
SEP = re.compile(r'"?sep=(.)"?', re.IGNORECASE)  # Excel's first line, which says what parts the cells


def separator(lines: Sequence[str]) -> str:
    """What parts the cells of these lines, the head first: each is tried, and that by which they agree best is it."""

    def agree(mark: str) -> Tuple[bool, int, int, int]:
        try:
            rows = [row for row in csv.reader(lines, delimiter=mark) if row]
        except csv.Error:  # a NUL, a carriage return within a line, a cell beyond csv's limit
            return False, 0, 0, 0
        width = len(rows[0]) if rows else 0
        blanks = sum(cell[:1] == " " for row in rows for cell in row[1:])
        return width > 1, sum(len(row) == width for row in rows), -blanks, width

    return max(",;\t|", key=agree)


class LinesSource(Source):
    """Numbers between commas. ``index`` of a frame is its line, counted from 1.

    Empty lines are skipped. A first line without any number has the names of the columns: where the bundle names its
    ``features``, they are taken by name. Where it has an ``input.table``, the first line must name the columns of that,
    and their cells are encoded (``manifest.columns``). ``subject_column``, from 1, says whose line it is: it is no
    feature, and the frame's ``track`` is a number for it.
    """

    schemes = ("csv",)
    forms = ("csv:FILE", "csv:-")
    help = "one vector a line, comma-separated; `-` is standard input"
    file = True
    samples = True
    subjects = True
    devices = ()
    calls = ""
    blocks = True

    def __init__(self, path: str, spec: Sensor, subject_column: Optional[int] = None) -> None:
        if len(spec["shape"]) != 1:
            raise BadInput("lines hold vectors, and this bundle takes {} of {}".format(spec["kind"], spec["shape"]))
        self._features: int = spec["shape"][0]
        self._dtype: np.dtype = np.dtype(spec["dtype"])
        self._subject = None if subject_column is None else SubjectColumn(subject_column, self._features)
        self._file = _open_file(path)
        self._tail, self._number, self._ended = b"", 0, False
        self._refused: List[Tuple[int, str]] = []
        self._names = True  # whether the first line may still be one of names
        self._mark = b""  # what parts the cells; empty until the first line
        self._wanted: Optional[Sequence[Optional[str]]] = spec.get("features")
        self._table: Optional[Encoder] = reader_of(spec.get("table"))
        if self._table is not None:
            self._wanted = self._table.columns
            if subject_column is not None:
                raise BadInput("--subject-column is for numbers, and this bundle encodes columns by their names")
        self._order: Optional[List[int]] = None  # of the columns, where it is another than that of the features

    @classmethod
    def open_samples(cls, where: str, sampling: Sampling) -> Any:
        """The reader of a series' samples: a time first in each line."""
        from edgeveil.edge_runtime.sources.series import TimedLines

        return TimedLines(where, sampling)

    def next_block(self) -> Optional[List[RawFrame]]:
        """A list of ``RawFrame``, empty where what came held none, or None after the last."""
        lines = self._lines()
        if lines is None:
            return None
        first, self._number = self._number + 1, self._number + len(lines)
        if not lines:
            return []
        if self._table is not None:
            return self._encoded(self._table, lines, first)
        lines = self._commas(lines)
        tracks: Sequence[int] = [0] * len(lines)
        if self._subject is not None:
            lines, tracks, refused = self._subject.take(lines, first)
            self._refused += refused
        if self._names:
            self._take_names(lines)
        numbers: Sequence[int]
        values = self._parse_block(lines)
        if values is None:
            numbers, values = self._parse_lines(lines, first)
        else:
            numbers = range(first, first + len(lines))
        self._names = False
        captured = now_ns()
        return [RawFrame(row, number, captured, tracks[number - first]) for number, row in zip(numbers, values)]

    def _commas(self, lines: List[bytes]) -> List[bytes]:
        """The lines with commas between their cells, without the mark of UTF-8 and Excel's line."""
        self._find_mark(lines)
        if self._mark == b",":
            return lines
        return [line.replace(b",", b"?").replace(self._mark, b",") for line in lines]  # 1,5 is no number here

    def _find_mark(self, lines: List[bytes]) -> None:
        """Find what parts the cells, once, and empty the lines that are none of the table."""
        if self._mark:
            return
        lines[0] = lines[0][len(MARK) :] if lines[0].startswith(MARK) else lines[0]
        declared = SEP.fullmatch(lines[0].decode("latin-1").strip("\r"))
        lines[0] = b"" if declared else lines[0]
        first = next((line for line in lines if line.strip()), b"")
        self._mark = (declared.group(1) if declared else separator([first.decode("latin-1")])).encode("latin-1")

    def _encoded(self, table: Encoder, lines: List[bytes], first: int) -> List[RawFrame]:
        """The rows of these lines as vectors; those that do not fit are refused. Raises ``BadInput``: other names."""
        self._find_mark(lines)
        numbers, rows = [], []
        for number, line in enumerate(lines, first):
            try:
                cells = _cells(line.decode("utf-8"), self._mark.decode("latin-1")) if line.strip() else []
            except UnicodeDecodeError:
                self._refused.append((number, "it is no UTF-8 text"))
                continue
            if cells and self._names:
                self._by_name(cells)
                self._names = False
            elif cells and len(cells) != len(table.columns):
                problem = "{} cells, and {} were expected".format(len(cells), len(table.columns))
                self._refused.append((number, problem))
            elif cells:
                numbers.append(number)
                rows.append(cells)
        if not rows:
            return []
        columns = list(zip(*rows))
        x, wrong = table.encode(columns if self._order is None else [columns[place] for place in self._order])
        captured = now_ns()
        self._refused += [(numbers[row], wrong[row]) for row in sorted(wrong)]
        return [RawFrame(x[row], number, captured, 0) for row, number in enumerate(numbers) if row not in wrong]

    def refused(self) -> List[Tuple[int, str]]:
        """The lines refused since the last call: a list of (number, what is wrong with it)."""
        refused_lines, self._refused = self._refused, []
        return refused_lines

    def next(self) -> Optional[RawFrame]:
        """Not for this source: use ``next_block``."""
        raise SourceFailed("lines come in blocks")

    def close(self) -> None:
        """Close the file."""
        if self._file is not sys.stdin.buffer:
            self._file.close()

    def _lines(self) -> Optional[List[bytes]]:
        if self._ended:
            return None
        try:
            data = self._file.read1(READ)
        except OSError as error:
            raise SourceFailed("the source cannot be read: {}".format(error.strerror)) from None
        if not data:
            self._ended = True
            return [self._tail] if self._tail.strip() else []
        lines = (self._tail + data).split(b"\n")
        self._tail = lines.pop()
        if len(self._tail) > LONGEST:
            raise BadInput("line {} has no end: expected lines of numbers".format(self._number + len(lines) + 1))
        return lines

    def _parse_block(self, lines: List[bytes]) -> Optional[np.ndarray]:
        """All values (n, features), or None where any line is not as it should be."""
        commas = self._features - 1
        if any(line.count(b",") != commas for line in lines):
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                values = np.fromstring(b",".join(lines).decode("ascii"), np.float64, sep=",")
            except (ValueError, DeprecationWarning):
                return None
        if len(values) != len(lines) * self._features:
            return None
        values = values.reshape(len(lines), self._features)
        values = values if self._order is None else values[:, self._order]
        return values.astype(self._dtype) if self._representable(values).all() else None

    def _parse_lines(self, lines: List[bytes], first: int) -> Tuple[List[int], np.ndarray]:
        numbers, rows = [], []
        for number, line in enumerate(lines, first):
            try:
                row = self._row(line.decode("utf-8"), number)
            except UnicodeDecodeError:
                self._refused.append((number, "it is no UTF-8 text"))
                continue
            except BadInput as error:
                self._refused.append((number, str(error)))
                continue
            if row is not None:
                numbers.append(number)
                rows.append(row)
        return numbers, np.array(rows, self._dtype).reshape(len(rows), self._features)

    def _row(self, text: str, _number_of_line: int) -> Optional[List[float]]:
        """The numbers of a line, or None for one to skip. Raises ``BadInput``, which names the fault."""
        if not text.strip():
            return None
        row = [_number(cell) for cell in _cells(text)]
        if len(row) != self._features:
            raise BadInput("{} values, and {} were expected".format(len(row), self._features))
        return self._check_row([row[place] for place in self._order or range(len(row))])

    def _take_names(self, lines: List[bytes]) -> None:
        """Empty the first line where it has the names of the columns."""
        place = next((place for place, line in enumerate(lines) if line.strip()), None)
        cells = [] if place is None else _cells(lines[place].decode("utf-8", "replace"))
        if place is not None and (all(_number(cell) is None for cell in cells) or cells == self._wanted):
            self._by_name(cells)
            lines[place] = b""

    def _by_name(self, cells: List[str]) -> None:
        """Take columns by their names. Raises ``BadInput`` where they are others than the bundle's."""
        if self._wanted is None:
            return
        wanted = [name or "".join(cells[:1]) for name in self._wanted]  # a time has any name, and comes first
        missing = [name for name in wanted if name not in cells]
        if missing or len(cells) != len(wanted):
            came = "lacks {}".format(missing[0]) if missing else "names {} columns".format(len(cells))
            raise BadInput(
                "the first line {}: this bundle takes {}. Write these columns under these names, and no others".format(
                    came, ", ".join(filter(None, self._wanted))
                )
            )
        order = [cells.index(name) for name in wanted]
        self._order = None if order == sorted(order) else order

    def _check_row(self, row: Sequence[Optional[float]]) -> List[float]:
        numbers = [value for value in row if value is not None]
        if len(numbers) < len(row):
            raise BadInput("value {} is not a number".format(list(row).index(None) + 1))
        fits = self._representable(np.array(numbers, np.float64))
        if not fits.all():
            place = int(np.argmin(fits)) + 1
            raise BadInput("value {} is NaN, infinite or not one that {} can hold".format(place, self._dtype))
        return numbers

    def _representable(self, values: np.ndarray) -> np.ndarray:
        """Which values (...) the type of the frames can hold."""
        if self._dtype.kind == "f":
            return np.abs(values) <= np.finfo(self._dtype).max
        limits = np.iinfo(self._dtype)
        return (values >= limits.min) & (values <= limits.max) & (values == np.rint(values))


class ArffSource(LinesSource):
    """The data of a dense ARFF file whose attributes are the features, all of them and no others."""

    schemes = ("arff",)
    forms = ("arff:FILE", "arff:-")
    help = "dense ARFF with exactly the features as attributes; otherwise as `csv:`"
    samples = False
    subjects = False

    def __init__(self, path: str, spec: Sensor) -> None:
        LinesSource.__init__(self, path, dict(spec, table=None))
        self._names, self._mark = False, b","
        self._attributes = arff.read_header(self._header())
        if len(self._attributes) != self._features:
            raise BadInput(
                "expected an ARFF file with the {} features alone; it has {} attributes: write one with those".format(
                    self._features, len(self._attributes)
                )
            )
        self._by_name([unicodedata.normalize("NFC", attribute.name) for attribute in self._attributes])
        self._numeric = all(attribute.categories is None for attribute in self._attributes)

    def _header(self) -> Iterator[Tuple[int, str]]:
        while True:
            line = self._file.readline(LONGEST)
            if not line:
                return
            self._number += 1
            yield self._number, line.decode("utf-8-sig", "replace")

    def _parse_block(self, lines: List[bytes]) -> Optional[np.ndarray]:
        return LinesSource._parse_block(self, lines) if self._numeric else None

    def _row(self, text: str, number: int) -> Optional[List[float]]:
        try:
            row = arff.read_row(self._attributes, text, number)
        except BadInput as error:
            raise BadInput(str(error).partition(": ")[2].rstrip(".")) from None
        return row if row is None else self._check_row([row[place] for place in self._order or range(len(row))])


def _cells(text: str, mark: str = ",") -> List[str]:
    """The cells of a line, some of them perhaps in quotes."""
    cells = text.split(mark)
    if '"' in text:
        with contextlib.suppress(csv.Error):  # a NUL
            cells = next(csv.reader([text.strip("\r\n" if mark == "\t" else None)], delimiter=mark))
    return [unicodedata.normalize("NFC", cell.strip()) for cell in cells]


def _number(token: str) -> Optional[float]:
    token = token.strip()
    try:
        # Python allows 1_000 and digits of other scripts, which the fast parser does not.
        return None if "_" in token or not token.isprintable() or any(c > "\x7f" for c in token) else float(token)
    except ValueError:
        return None


def _open_file(path: str) -> Any:
    if path == "-":
        return sys.stdin.buffer
    try:
        return open(path, "rb")
    except OSError as error:
        raise BadInput("expected a file of lines at {}: {}".format(path, str(error.strerror).lower())) from None
