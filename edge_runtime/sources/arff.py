"""Dense ARFF: the header of names and kinds, and rows of numbers. Read line by line, so that a file may be endless.

Numeric attributes are numbers; nominal ones whose categories are all numbers are those numbers, others the position
of the category in the header. Strings, dates, relations and sparse rows are refused by name.
"""

import math
import re
import sys
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.frames import Subject

_QUOTED_OR_PLAIN = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s,{}'"]+"""
_ATTRIBUTE = re.compile(r"@attribute\s+(" + _QUOTED_OR_PLAIN + r")\s+(\{.*\}|\S+)\s*(?:\S.*)?$", re.IGNORECASE)
_VALUE = re.compile(r"\s*(" + _QUOTED_OR_PLAIN + r"|)\s*(,|$)")


class Attribute(NamedTuple):
    """One column. ``categories`` maps a nominal value to its number; None where the column is numeric."""

    name: str
    categories: Optional[Dict[str, float]]


def _plain(token: str) -> str:
    if token[:1] in "'\"" and token:
        return re.sub(r"\\(.)", r"\1", token[1:-1])
    return token


def _values(text: str) -> Optional[List[str]]:
    """The values of a comma-separated line, without their quotes; None where the line is not one."""
    if "'" not in text and '"' not in text:
        return [value.strip() for value in text.split(",")]
    values, place = [], 0
    while True:
        match = _VALUE.match(text, place)
        if match is None:
            return None
        values.append(_plain(match.group(1)))
        place = match.end()
        if not match.group(2):
            return values


def _attribute(line: str, number: int) -> Attribute:
    match = _ATTRIBUTE.match(line)
    if match is None:
        raise BadInput("line {}: an @attribute needs a name and a kind; look at the header.".format(number))
    name, kind = _plain(match.group(1)), match.group(2)
    if kind.lower() in ("numeric", "real", "integer"):
        return Attribute(name, None)
    if not kind.startswith("{"):
        raise BadInput(
            "line {}: attribute {} is of kind {}; only numeric and nominal ones can be read. Leave it out of the "
            "file.".format(number, name, kind)
        )
    names = _values(kind[1:-1])
    if not names or "" in names or len(set(names)) != len(names):
        raise BadInput("line {}: attribute {} needs categories, each of them once.".format(number, name))
    try:
        return Attribute(name, {value: float(value) for value in names})
    except ValueError:
        return Attribute(name, {value: float(place) for place, value in enumerate(names)})


def read_header(lines: Iterator[Tuple[int, str]]) -> List[Attribute]:
    """The attributes, from numbered lines up to and with ``@data``. Raises BadInput naming the line."""
    attributes = []
    for number, line in lines:
        text = line.strip()
        word = text.split(None, 1)[0].lower() if text else ""
        if not text or text.startswith("%") or word == "@relation":
            continue
        if word == "@attribute":
            attributes.append(_attribute(text, number))
        elif word == "@data" and attributes:
            names = [attribute.name for attribute in attributes]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise BadInput("The attribute {} is declared twice; rename one.".format(twice[0]))
            return attributes
        else:
            raise BadInput("line {}: expected @attribute or @data; is this an ARFF file?".format(number))
    raise BadInput("The file has no @data section: it is no ARFF file or was cut short.")


def read_row(attributes: List[Attribute], line: str, number: int) -> Optional[List[float]]:
    """The numbers of one data line, None for an empty line or a comment. Raises BadInput naming line and column.

    A message never holds the value itself.
    """
    text = line.strip()
    if not text or text.startswith("%"):
        return None
    if text.startswith("{"):
        raise BadInput("line {}: sparse rows cannot be read; write the file densely.".format(number))
    values = _values(text)
    if values is None or len(values) != len(attributes):
        raise BadInput(
            "line {}: {} values for {} attributes.".format(
                number, "unbalanced quotes or wrong" if values is None else len(values), len(attributes)
            )
        )
    row = []
    for value, attribute in zip(values, attributes):
        try:
            decoded = float(value) if attribute.categories is None else attribute.categories[value]
        except (ValueError, KeyError):
            decoded = math.nan
        if not math.isfinite(decoded):
            what = "is missing (?)" if value == "?" else "is not one it can have"
            raise BadInput("line {}: the value of {} {}.".format(number, attribute.name, what))
        row.append(decoded)
    return row


def read_rows(attributes: List[Attribute], lines: Iterable[Tuple[int, str]]) -> Iterator[List[float]]:
    """Every row of numbered data lines; stops at the first bad one with BadInput."""
    for number, line in lines:
        row = read_row(attributes, line, number)
        if row is not None:
            yield row


# The column of a table that says whose line it is. It is no feature: it goes no further than to a number.


class SubjectColumn(object):
    """Takes the column ``number``, from 1, out of lines that have ``features`` others. Raises ``BadInput``."""

    def __init__(self, number: int, features: int) -> None:
        if not 1 <= number <= features + 1:
            raise BadInput(
                "expected --subject-column from 1 to {}, for a subject next to {} features; got {}".format(
                    features + 1, features, number
                )
            )
        self._place, self._features = number - 1, features
        self._any = False  # whether a line was whole
        self._spelled: Dict[int, Tuple[int, int]] = {}  # by subject: the number of its first spelling, and its line
        self._noted = False

    def take(self, lines: List[bytes], first: int) -> Tuple[List[bytes], List[int], List[Tuple[int, str]]]:
        """The lines without the column, the number of each one's subject, and the refused: (line, what is wrong).

        A refused line is empty, as one that was empty before. ``first`` is the number of the first of them.
        """
        rest, subjects, refused = [], [], []
        for number, line in enumerate(lines, first):
            cells = line.split(b",") if line.strip() else []
            problem = ""
            if cells and len(cells) != self._features + 1:
                problem = "{} columns, and {} were expected with that of the subject".format(
                    len(cells), self._features + 1
                )
                if not self._any:
                    # Not one broken line among good ones.
                    raise BadInput(
                        "line {} has {}: --subject-column {} names a feature, or the table is another. Name the column "
                        "that is none.".format(number, problem, self._place + 1)
                    )
            self._any = self._any or bool(cells)
            subject = b"" if problem or not cells else cells.pop(self._place).strip(b' \t\r"')
            if cells and not problem and not subject:
                problem = "column {} names no subject".format(self._place + 1)
            if problem:
                refused.append((number, problem))
            rest.append(b"" if problem else b",".join(cells))
            subjects.append(self._numbered(subject, number))
        return rest, subjects, refused

    def _numbered(self, name: bytes, line: int) -> int:
        subject = Subject.from_name(name.decode("utf-8", "surrogateescape"))
        former, first = self._spelled.setdefault(subject, (subject.former, line))
        if former != subject.former and not self._noted:
            self._noted = True
            message = "note: line {} names the subject of line {} in another spelling: both count as one\n"
            sys.stderr.write(message.format(line, first))
        return subject
