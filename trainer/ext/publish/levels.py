"""One column on integer codes: the code of each of its values at each level of its hierarchy."""

from __future__ import annotations

import bisect
import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from edgeveil.edge_runtime.errors import BadInput

# What every hierarchy is: from a value to its labels, each with what it loses.


ANY = "*"
GONE = ""  # the empty cell
_EXACT = Context(prec=10**6, Emax=MAX_EMAX, Emin=MIN_EMIN)
Rung = tuple[str, float]  # a label and its loss


def normal(value: str) -> str:
    """The one spelling by which criteria compare values: Unicode's compatibility form without case, invisible
    characters and more blanks than one between words; numbers by what they are, exactly."""
    text = unicodedata.normalize("NFKC", value).casefold()
    text = " ".join("".join(one for one in text if unicodedata.category(one) != "Cf").split())
    with suppress(InvalidOperation):
        number = Decimal(text)
        return str(number.normalize(_EXACT) if number else 0) if number.is_finite() else text
    return text


def number_text(number: float) -> str:
    """A number in full: no two have one text."""
    return repr(number).removesuffix(".0")


class Rungs(BaseModel):
    """The base of hierarchies, which are read from a plan."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def rungs(self, value: str) -> list[Rung] | None:
        """The labels of ``value`` from itself up to ``*``, each with its loss in [0, 1]; None: it is not covered."""
        raise NotImplementedError

    ordered: ClassVar[bool] = False  # whether values stand on a line, at a place from 0 to 1

    def place(self, value: str) -> float | str:
        """What sorts covered values: their place on a line, or among the names of the plan."""
        return value


# The hierarchy of dates: days, and the weeks, months, quarters and years that they lie in.


Unit = Literal["week", "month", "quarter", "year"]


class Dates(Rungs):
    """Days from ``first`` to ``last``, and what they lie in. No month, quarter or year is made of whole weeks, so
    nothing but ``*`` is above a week. The time of a day is never published."""

    ordered = True
    kind: Literal["dates"]
    first: date
    last: date
    units: list[Unit]
    formats: list[str] = []

    @model_validator(mode="after")
    def _nested(self) -> Dates:
        for form in self.formats:
            for day in (date(2001, 2, 13), date(2001, 2, 3)):
                text = day.strftime(form)
                if _day(text, [form]) != day or as_date(text) not in (None, day):
                    raise ValueError(f"`formats` of day, month and year such as %d.%m.%Y, and {form} is none")
        order = ["month", "quarter", "year"]
        known = [order.index(unit) for unit in self.units if unit != "week"]
        if known != sorted(set(known)) or ("week" in self.units and self.units != ["week"]):
            raise ValueError('month, quarter and year in this order, or ["week"] alone: months do not hold whole weeks')
        if self.first >= self.last or self.last.year == date.max.year:
            raise ValueError(f"`first` before `last`, and both before the year {date.max.year}")
        return self

    def rungs(self, value: str) -> list[Rung] | None:
        """As ``Rungs``; ISO dates and those of ``formats``, or times of which the date is taken."""
        day = _day(value, self.formats)
        if day is None or not self.first <= day <= self.last:
            return None
        spans = (_span(day, unit) for unit in self.units)
        return [(day.isoformat(), 0.0), *((label, self._loss(*ends)) for label, *ends in spans), (ANY, 1.0)]

    def place(self, value: str) -> float:
        """As ``Rungs``."""
        return ((_day(value, self.formats) or self.first) - self.first) / (self.last - self.first)

    def _loss(self, first: date, after: date) -> float:
        days = min(after - timedelta(1), self.last) - max(first, self.first)
        return days / (self.last - self.first)


def as_date(value: str) -> date | None:
    """The date of an ISO date or time, or None for another text."""
    with suppress(ValueError):
        return datetime.fromisoformat(value).date()
    return None


def _day(value: str, formats: Sequence[str]) -> date | None:
    for form in formats:
        with suppress(ValueError):
            return datetime.strptime(value, form).date()
    return as_date(value)


def _span(day: date, unit: Unit) -> tuple[str, date, date]:
    """The label of what a day lies in, its first day, and the day after it."""
    if unit == "week":
        monday = day - timedelta(day.weekday())
        year, week, _ = day.isocalendar()
        return f"{year}-W{week:02d}", monday, monday + timedelta(7)
    months = {"month": 1, "quarter": 3, "year": 12}[unit]
    begin = (day.month - 1) // months * months + 1
    end = begin + months
    label = {"month": f"{day:%Y-%m}", "quarter": f"{day.year}-Q{(begin + 2) // 3}", "year": f"{day.year}"}[unit]
    return label, date(day.year, begin, 1), date(day.year + (end > 12), end - 12 if end > 12 else end, 1)


# Hierarchies of numbers: ranges of equal widths, and ranges between cuts.


class _Numbers(Rungs):
    """Numbers from ``low`` to ``high``, both included; both are public, and none is taken from the data."""

    ordered = True
    low: float = Field(ge=-(2.0**53), le=2.0**53)  # beyond these two whole numbers are one float
    high: float = Field(ge=-(2.0**53), le=2.0**53)
    whole: bool = True

    @model_validator(mode="after")
    def _some(self) -> _Numbers:
        if self.low >= self.high:
            raise ValueError(f"`low` below `high`, not {self.low:g} and {self.high:g}")
        return self

    def rungs(self, value: str) -> list[Rung] | None:
        """As ``Rungs``; the value itself is written as a number, so that 7 and 07 are one."""
        number = as_number(value)
        if number is None or not self.low <= number <= self.high or (self.whole and number != round(number)):
            return None
        return [(number_text(number), 0.0), *(self._range(*ends) for ends in self._ends(number)), (ANY, 1.0)]

    def place(self, value: str) -> float:
        """As ``Rungs``."""
        return (float(value) - self.low) / (self.high - self.low)

    def _ends(self, number: float) -> Iterator[tuple[float, float]]:
        raise NotImplementedError

    def _range(self, low: float, high: float) -> Rung:
        """From ``low`` to below ``high``."""
        if self.whole:
            first, last = math.ceil(low), math.ceil(high) - 1
            size = min(last, self.high) - max(first, self.low)
            return (f"{first}..{last}" if first < last else f"{first}"), size / (self.high - self.low)
        size = min(high, self.high) - max(low, self.low)
        end = f"{number_text(self.high)}]" if high == math.nextafter(self.high, math.inf) else f"{number_text(high)})"
        return f"[{number_text(low)},{end}", size / (self.high - self.low)


class Ranges(_Numbers):
    """Ranges that begin at ``start`` and at every ``width`` from there; each width is a multiple of the one before."""

    kind: Literal["ranges"]
    widths: list[Annotated[float, Field(gt=0)]]
    start: float = 0.0

    @model_validator(mode="after")
    def _nested(self) -> Ranges:
        for fine, coarse in zip(self.widths, self.widths[1:], strict=False):
            times = coarse / fine
            if times < 2 or abs(times - round(times)) > 1e-9:
                raise ValueError(f"each width a multiple of the one before, and {coarse:g} is none of {fine:g}")
        return self

    def _ends(self, number: float) -> Iterator[tuple[float, float]]:
        if not self.widths:
            return
        finest, start = (Fraction(repr(one)) for one in (self.widths[0], self.start))  # so that nothing is rounded
        step = math.floor((Fraction(repr(number)) - start) / finest)
        for width in self.widths:
            times = round(width / self.widths[0])
            low = start + (step // times) * times * finest
            yield float(low), float(low + times * finest)


class Cuts(_Numbers):
    """Ranges between cuts, a list for each level; a cut belongs to the range above it. Each list is part of the one
    before."""

    kind: Literal["cuts"]
    cuts: list[list[float]]

    @model_validator(mode="after")
    def _nested(self) -> Cuts:
        for fine, coarse in zip(self.cuts, self.cuts[1:], strict=False):
            if more := sorted(set(coarse) - set(fine)):
                raise ValueError(f"each list of cuts to be part of the one before, and {more[0]:g} is not in it")
        for level in self.cuts:
            if level != sorted(set(level)) or any(not self.low < cut <= self.high for cut in level):
                raise ValueError("cuts that rise, above `low` and up to `high`")
        return self

    def _ends(self, number: float) -> Iterator[tuple[float, float]]:
        for level in self.cuts:
            ends = [-math.inf, *level, math.inf]
            at = bisect.bisect_right(level, number)
            yield max(ends[at], self.low), self._end if ends[at + 1] == math.inf else ends[at + 1]

    @property
    def _end(self) -> float:
        """Just above ``high``."""
        return self.high + 1 if self.whole else math.nextafter(self.high, math.inf)


def as_number(value: str) -> float | None:
    """A finite number, or None for another text."""
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in value else None


# Hierarchies of texts: codes by their first characters, and trees of names.


class Prefixes(Rungs):
    """Codes of ``length`` characters such as ZIP codes; a level for each number of characters that stay."""

    kind: Literal["prefixes"]
    length: Annotated[int, Field(ge=1)]
    keep: list[Annotated[int, Field(ge=1)]]
    alphabet: Annotated[int, Field(ge=2, description="How many characters there are: 10 for digits.")] = 10

    @model_validator(mode="after")
    def _nested(self) -> Prefixes:
        if self.keep != sorted(set(self.keep), reverse=True) or any(length >= self.length for length in self.keep):
            raise ValueError("numbers that fall, all below `length`")
        return self

    def rungs(self, value: str) -> list[Rung] | None:
        """As ``Rungs``."""
        if len(value) != self.length or not value.isalnum():
            return None
        prefixes = [(value[:keep] + ANY * (self.length - keep), float(self.alphabet) ** -keep) for keep in self.keep]
        return [(value, 0.0), *prefixes, (ANY, 1.0)]


class Tree(Rungs):
    """Names in groups, and groups in groups: ``["a", "b"]``, ``{ group = ["a", "b"], other = ["c"] }``, and so on. A
    cell is the name that it is another spelling of."""

    kind: Literal["tree"]
    tree: Any

    @model_validator(mode="after")
    def _one_place(self) -> Tree:
        leaves = list(_leaves(self.tree))
        depths = {len(path) for path in leaves}
        if len(leaves) < 2 or len(depths) > 1:
            raise ValueError("a list of two names or more, or tables of lists that are all equally deep")
        names = [normal(path[-1]) for path in leaves]
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ValueError(f'each name in one group, and "{twice[0]}" stands in two')
        return self

    @cached_property
    def _paths(self) -> dict[str, tuple[str, ...]]:
        return {normal(path[-1]): path for path in _leaves(self.tree)}

    @cached_property
    def _below(self) -> Counter[tuple[str, ...]]:
        """How many leaves each group has."""
        return Counter(path[:depth] for path in self._paths.values() for depth in range(1, len(path)))

    @cached_property
    def _places(self) -> dict[str, float]:
        return {name: float(at) for at, name in enumerate(self._paths)}

    def rungs(self, value: str) -> list[Rung] | None:
        """As ``Rungs``."""
        path = self._paths.get(normal(value))
        if path is None:
            return None
        groups = [path[:depth] for depth in range(len(path) - 1, 0, -1)]
        return [(path[-1], 0.0), *((one[-1], self._loss(one)) for one in groups), (ANY, 1.0)]

    def place(self, value: str) -> float:
        """As ``Rungs``: names in the order of the plan."""
        return self._places[normal(value)]

    def _loss(self, group: tuple[str, ...]) -> float:
        return (self._below[group] - 1) / (len(self._paths) - 1)


def _leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(tree, dict):
        for name, inner in tree.items():
            yield from _leaves(inner, (*path, str(name)))
    elif isinstance(tree, list) and all(isinstance(one, str) for one in tree):
        for name in tree:
            yield (*path, name)
    else:
        raise ValueError("tables, and lists of texts")


# Level 0 is the value itself and the last level is ``*``, one label for all. Each level between joins whole labels of
# the level before it; a hierarchy that would not is refused when it is read. The loss of a label is its extent in the
# domain that the plan states (normalised certainty penalty: Xu et al., "Utility-based anonymization", 2006): 0 for a
# single value, 1 for ``*``; m of M names lose (m - 1) / (M - 1).


Hierarchy = Annotated[Ranges | Cuts | Dates | Prefixes | Tree, Field(discriminator="kind")]


@dataclass(frozen=True)
class Levels:
    """``codes[level][base]`` is the code at a level of a value with base code ``base``; ``labels[level][code]`` its
    text and ``losses[level][code]`` its loss in [0, 1]. Equal texts of two places in a tree have different codes.
    ``positions`` (base codes,) is where each value stands on a line, 0 to 1, where values have an order; -1 is an empty
    cell. Base codes follow that order, else that of the plan's names."""

    codes: tuple[np.ndarray, ...]
    labels: tuple[tuple[str, ...], ...]
    losses: tuple[np.ndarray, ...]
    positions: np.ndarray | None

    def __len__(self) -> int:
        return len(self.codes)

    def size(self, level: int) -> int:
        """How many codes a level has."""
        return len(self.labels[level])


def rungs_of(hierarchy: Hierarchy, values: Iterable[str]) -> dict[str, list[Rung] | None]:
    """The rungs of each value. An empty cell that the hierarchy does not cover is a leaf of its own, below ``*``."""
    by_value = {value: hierarchy.rungs(value) for value in values}
    if GONE in by_value and by_value[GONE] is None:
        height = max((len(one) for one in by_value.values() if one is not None), default=2)
        by_value[GONE] = [(GONE, 0.0)] * (height - 1) + [(ANY, 1.0)]
    return by_value


def place_of(hierarchy: Hierarchy, value: str) -> float | str:
    """What sorts a value; an empty cell that the hierarchy does not cover comes before all others."""
    if value == GONE and hierarchy.rungs(value) is None:
        return GONE if isinstance(hierarchy, Prefixes) else -1.0
    return hierarchy.place(value)


def encode(column: str, values: Sequence[str], hierarchy: Hierarchy) -> tuple[np.ndarray, Levels]:
    """Base codes int64 (rows,) of a column of texts, and its levels.

    Raises ``BadInput`` with the column and the row of a value that the hierarchy does not cover; the value itself is
    never shown.
    """
    distinct, first, raw = np.unique(np.asarray(values, object).astype(str), return_index=True, return_inverse=True)
    rungs = list(rungs_of(hierarchy, map(str, distinct)).values())
    for at in np.argsort(first):
        if rungs[at] is None:
            raise BadInput(
                f'Column "{column}", row {first[at] + 1}: its hierarchy of {hierarchy.kind} does not cover the value '
                "there. Add it to the plan (dates to its `formats`, words for no value to `missing`), or drop the row."
            )
    covered = [rung for rung in rungs if rung is not None]
    places = [place_of(hierarchy, str(value)) for value in distinct]
    order = np.array(sorted(range(len(places)), key=lambda at: places[at]))
    return _coded(raw, order, covered, np.array(places) if hierarchy.ordered else None)


def _coded(
    raw: np.ndarray, order: np.ndarray, paths: list[list[tuple[str, float]]], places: np.ndarray | None
) -> tuple[np.ndarray, Levels]:
    count = len(paths[0])
    numbers: list[dict[tuple[str, ...], int]] = [{} for _ in range(count)]
    codes = np.empty((count, len(paths)), np.int64)
    for at in order:
        labels = [label for label, _ in paths[at]]
        for level in range(count):
            # A label and all above it: two groups of one name in different places stay two.
            codes[level, at] = numbers[level].setdefault(tuple(labels[level:]), len(numbers[level]))
    losses = [np.empty(len(one)) for one in numbers]
    for at, rungs in enumerate(paths):
        for level, (_, loss) in enumerate(rungs):
            losses[level][codes[level, at]] = loss
    base = codes[0]
    by_base = np.empty(len(numbers[0]), np.int64)
    by_base[base] = np.arange(len(base))
    levels = Levels(
        codes=tuple(codes[level][by_base] for level in range(count)),
        labels=tuple(tuple(path[0] for path in one) for one in numbers),
        losses=tuple(losses),
        positions=None if places is None else places[by_base],
    )
    return base[raw], levels
