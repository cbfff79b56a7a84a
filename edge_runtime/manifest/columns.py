"""The manifest's ``input.table``: how the cells of a row become the vector x. Trainer and board encode with this code.

``number``: the number that is written, with the column's decimal and thousands marks. ``date``: days since 1970-01-01,
in UTC. ``boolean``: 1 or 0. ``ordinal``: the place of the cell among ``values``, from 0. ``one-hot``: a feature for
each of ``values``, 1 for the cell's own; none of another cell. A cell is *missing* where it is empty or a word of
``missing``, and so is a boolean or ordinal that is none of its values. It becomes ``fill``, and with ``flag`` a feature
more is 1; without ``fill`` the row is refused. A missing cell of a one-hot column is the value "".
"""

import datetime
import hashlib
import re
import unicodedata
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.util import validate as field
from edgeveil.edge_runtime.util.validate import Problem, Table

KINDS = ("number", "one-hot", "ordinal", "boolean", "date")
DECIMAL = (".", ",")
THOUSANDS = ("", ".", ",", " ", "'")
DAYS = ("year-month-day", "day.month.year", "day/month/year", "month/day/year")  # how dates are written
MOST_VALUES = 200
MOST_COLUMNS = 1024
TRUE, FALSE = ("true", "yes", "t", "y", "1"), ("false", "no", "f", "n", "0")
_VALUED = ("one-hot", "ordinal")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DATE = re.compile(r"([0-9]+)([-./])([0-9]+)\2([0-9]+)(?:[T ](.+))?")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.[0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?")


def number(cell: str, decimal: str = ".", thousands: str = "") -> Optional[float]:
    """The finite number that is written; None for another text."""
    if thousands:
        whole, mark, rest = cell.partition(decimal)
        groups = re.sub(r"[\u00a0\u202f\u2019]", lambda one: "'" if one.group() == "\u2019" else " ", whole)
        parts = groups.lstrip("+-").split(thousands)
        if len(parts) > 1 and not (1 <= len(parts[0]) <= 3 and all(len(part) == 3 for part in parts[1:])):
            return None
        cell = groups.replace(thousands, "") + mark + rest
    if decimal != ".":
        if "." in cell:
            return None
        cell = cell.replace(decimal, ".")
    if not _NUMBER.fullmatch(cell):
        return None
    value = float(cell)
    return value if abs(value) <= 3.4028234e38 else None


def date(cell: str, days: str = DAYS[0]) -> Optional[float]:
    """Days since 1970-01-01 in UTC; None for another text. A time without an offset is taken as UTC."""
    match = _DATE.fullmatch(cell)
    if match is None or match.group(2) != next(mark for mark in "-./" if mark in days):
        return None
    order = re.split("[-./]", days)
    parts = dict(zip(order, (match.group(1), match.group(3), match.group(4))))
    time = _TIME.fullmatch(match.group(5) or "00:00")
    if time is None or len(parts["year"]) != 4:
        return None
    try:
        day = datetime.date(int(parts["year"]), int(parts["month"]), int(parts["day"])).toordinal() - 719163
        of_day = datetime.time(int(time.group(1)), int(time.group(2)), int(time.group(3) or 0))
    except ValueError:
        return None
    offset = time.group(4) or "Z"
    minutes = 0 if offset == "Z" else int(offset[1:3]) * 60 + int(offset[-2:])
    minutes = of_day.hour * 60 + of_day.minute - (-minutes if offset[0] == "-" else minutes)
    return day + (minutes * 60 + of_day.second) / 86400.0


class Encoder(object):
    """Rows of cells to vectors, by an ``input.table``. ``columns`` are the names that it reads, ``features`` x's."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._missing = frozenset([""] + [normal(word) for word in table["missing"]])
        self._each = [dict(one) for one in table["columns"]]
        self.columns = [one["name"] for one in self._each]
        self.features = [name for one in self._each for name in slots(one)]

    def encode(self, cells: Sequence[Sequence[str]]) -> Tuple[np.ndarray, Dict[int, str]]:
        """Columns of cells, each (rows,), to x float32 (rows, features), and what is wrong with a row, by its place.

        A refused row has zeros. The message names the column and never the cell.
        """
        blocks: List[np.ndarray] = []
        wrong: Dict[int, str] = {}
        for place, (one, column) in enumerate(zip(self._each, cells)):
            block, bad = self.column(place, column)
            blocks.append(block)
            for row in np.flatnonzero(bad).tolist():
                wrong.setdefault(row, 'column "{}" holds {}'.format(one["name"], _expected(one)))
        x = np.concatenate(blocks, axis=1)
        x[list(wrong)] = 0
        return x, wrong

    def column(self, place: int, cells: Sequence[str]) -> Tuple[np.ndarray, np.ndarray]:
        """The features of one column, float32 (rows, its features), and which cells it refuses (rows,)."""
        one = self._each[place]
        known: Dict[str, int] = {}
        codes: List[int] = []
        for cell in cells:
            codes.append(known.setdefault(cell, len(known)))
        encoded = [_row(one, self._cell(cell)) for cell in known]
        width = len(slots(one))
        rows = np.array([[0.0] * width if row is None else row for row in encoded], np.float32).reshape(-1, width)
        bad = np.array([row is None for row in encoded], bool)
        at = np.array(codes, np.int64)
        return rows[at], bad[at]

    def numbers(self, place: int, values: np.ndarray, missing: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """As ``column``, of cells that are numbers already, with which are ``missing``, both (rows,)."""
        fill = self._each[place]["fill"]
        block = np.zeros((len(values), len(slots(self._each[place]))), np.float32)
        block[:, 0] = np.where(missing, 0.0 if fill is None else fill, values)
        if block.shape[1] > 1:
            block[:, 1] = missing
        return block, missing & (fill is None)

    def _cell(self, cell: str) -> Optional[str]:
        cell = normal(cell)
        return None if cell in self._missing else cell


def normal(cell: str) -> str:
    """A cell as it is compared: in Unicode's composed form, without blanks around it."""
    return unicodedata.normalize("NFC", cell).strip()


def slots(one: Mapping[str, Any]) -> List[str]:
    """The names of the features that a column becomes."""
    if one["kind"] == "one-hot":
        return ["{}={}".format(one["name"], value) for value in one["values"]]
    return [one["name"]] + ["{}=".format(one["name"])] * one["flag"]


def digest(table: Mapping[str, Any]) -> str:
    """The SHA-256 of made-up rows as this machine encodes them, float32 in little endian: what ``sha256`` must be."""
    encoder, examples = Encoder(table), [_examples(one) for one in table["columns"]]
    most = max(len(cells) for cells in examples)
    x, _ = encoder.encode([[cells[row % len(cells)] for row in range(most)] for cells in examples])
    return hashlib.sha256(x.astype("<f4").tobytes()).hexdigest()


def _examples(one: Mapping[str, Any]) -> List[str]:
    """Cells of a column that try each of its ways: every value, another one, none, odd spellings."""
    if one["kind"] in _VALUED:
        return list(one["values"]) + ["", "another than all of these"]
    if one["kind"] == "boolean":
        return ["True", "no", "1", "", "maybe"]
    if one["kind"] == "date":
        marks = re.sub("year", "2024", re.sub("month", "02", re.sub("day", "29", one["days"])))
        return [marks, marks + " 23:59:59", marks + "T01:30+02:00", "", "30 February"]
    far = "1{0}234{0}567{1}25".format(one["thousands"], one["decimal"])
    return ["0{}1".format(one["decimal"]), "-7", far, "3e-5", "", "seven"]


def _row(one: Mapping[str, Any], cell: Optional[str]) -> Optional[List[float]]:
    """The features of a cell (None: missing); None where it is refused."""
    kind = one["kind"]
    if kind == "one-hot":
        return [float((cell or "") == value) for value in one["values"]]
    value: Optional[float] = None
    if cell is not None and kind == "number":
        value = number(cell, one["decimal"], one["thousands"])
    elif cell is not None and kind == "date":
        value = date(cell, one["days"])
    if cell is not None and kind in ("number", "date") and value is None:
        return None  # something else is written there: that is no missing value
    if cell is not None and kind == "boolean":
        value = 1.0 if cell.lower() in TRUE else 0.0 if cell.lower() in FALSE else None
    elif cell is not None and kind == "ordinal" and cell in one["values"]:
        value = float(one["values"].index(cell))
    if value is None and one["fill"] is None:
        return None
    return [one["fill"] if value is None else value] + [float(value is None)] * one["flag"]


def _expected(one: Mapping[str, Any]) -> str:
    return {
        "number": "no number, or one that float32 cannot hold",
        "date": "no date as in {}".format(one.get("days")),
        "boolean": "neither a yes nor a no",
        "ordinal": "none of its values",
    }.get(one["kind"], "no value")


def reader_of(table: Optional[Mapping[str, Any]]) -> Optional[Encoder]:
    """The encoder of an ``input.table``; None of None."""
    return None if table is None else Encoder(table)


# The table of ``input.table``.


def _column(one: Dict[str, Any], _document: Any) -> Table:
    kind = one.get("kind")
    own: Dict[str, Any] = {}
    if kind in _VALUED:
        own["values"] = field.each(field.text(), 1, MOST_VALUES, rule=_different)
    if kind == "number":
        own.update(decimal=field.one_of(DECIMAL), thousands=field.one_of(THOUSANDS))
    if kind == "date":
        own["days"] = field.one_of(DAYS)
    if kind in KINDS and kind != "one-hot":
        own.update(fill=field.real(null=True), flag=field.truth())
    return dict({"name": field.text(), "kind": field.one_of(KINDS)}, **own)


def _different(values: List[str], _one: Any, _document: Any) -> Iterable[Problem]:
    if len(set(map(normal, values))) != len(values) or any(normal(value) != value for value in values):
        yield "redefined-value", "", "two values are alike, or one has blanks around it"


def problems(table: Dict[str, Any], source: Dict[str, Any], _document: Any) -> Iterable[Problem]:
    """What is wrong with a table whose keys are there, for the ``input`` around it."""
    for one in table["columns"]:
        if one["kind"] == "number" and one["thousands"] == one["decimal"]:
            yield "bad-value", "columns", "the decimal mark of a column is its thousands mark too"
            return
    encoder = Encoder(table)
    if len(set(encoder.columns)) != len(encoder.columns):
        yield "redefined-value", "columns", "two columns have the same name"
    if encoder.features != source.get("features") or source["dtype"] != "float32":
        yield "bad-value", "columns", "they do not make the features of the input, in float32"
    elif digest(table) != table["sha256"]:
        yield "bad-value", "sha256", "this machine encodes made-up rows otherwise than the maker's did"


TABLE = field.record(
    {
        "missing": field.each(field.text(), 0, MOST_VALUES),
        "columns": field.each(field.record(_column), 1, MOST_COLUMNS),
        "sha256": field.sha256(),
    },
    rule=problems,
)


def checked(columns: Sequence[Mapping[str, Any]], missing: Sequence[str]) -> Dict[str, Any]:
    """An ``input.table`` of these columns with its ``sha256``. Raises ``BadInput``."""
    table: Dict[str, Any] = {"missing": list(missing), "columns": [dict(one) for one in columns]}
    for one in table["columns"]:
        if one["kind"] == "number" and one["thousands"] == one["decimal"]:
            raise BadInput(
                'column "{}": expected a thousands mark that is not the decimal mark too. Correct it.'.format(
                    one["name"]
                )
            )
    table["sha256"] = digest(table)
    return table
