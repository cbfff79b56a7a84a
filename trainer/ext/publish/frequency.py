"""Who looks like whom once some columns are generalised: frequency sets on integer codes, and classes of people.

What k is counted over depends on what links the rows that are published:

* ``person``: a pseudonym links the rows of each person. A person is the multiset of their generalised rows, and people
  with equal multisets are a class.
* ``none``: nothing links rows. A class is rows that are equal, and the people it holds are counted, each once.
* ``rows``: a table in which every row stands for somebody else, or for no one.

A multiset is known by two sums, modulo 2^64, of mixed codes of its rows: two different ones collide with a chance of
about n^2 / 2^129 for n people, and what was written is counted again without sums.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext.publish.levels import Levels

Link = Literal["person", "none", "rows"]
Node = tuple[int, ...]
_MOST = 2**62
_MIXERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


class Classes(NamedTuple):
    """``number`` (members,) is the class of each member, from 0 and without gaps; ``person`` (members,) who that is."""

    number: np.ndarray
    person: np.ndarray

    def __len__(self) -> int:
        return int(self.number.max()) + 1 if len(self.number) else 0

    def of(self, people: np.ndarray) -> Classes:
        """The same for some people (mask) alone."""
        members = people[self.person]
        return Classes(numbered(self.number[members], len(self)), self.person[members])


@dataclass(frozen=True)
class Frequencies:
    """Rows of base codes, one array (rows,) for each of ``levels``; ``person`` (rows,) numbers whose they are, grouped.

    ``weight`` (people,) is how many people one number stands for, which is 1 but for equal rows of the link ``rows``;
    ``sensitive`` has the code (people,) of each person's value.
    """

    link: Link
    levels: tuple[Levels, ...]
    codes: tuple[np.ndarray, ...]
    person: np.ndarray
    weight: np.ndarray
    sensitive: Mapping[str, np.ndarray]

    @classmethod
    def of(
        cls,
        link: Link,
        levels: Sequence[Levels],
        codes: Sequence[np.ndarray],
        person: np.ndarray,
        sensitive: Mapping[str, np.ndarray],
    ) -> Frequencies:
        """Of all rows; ``person`` (rows,) has the numbers 0 to people - 1, ``sensitive`` codes (people,)."""
        order = np.argsort(person, kind="stable")
        weight = np.ones(int(person.max()) + 1, np.int64)
        held = tuple(one[order] for one in codes)
        return cls(link, tuple(levels), held, person[order], weight, dict(sensitive))

    def chosen(self, columns: Sequence[int]) -> Frequencies:
        """The frequency set of some columns: rows that are equal in them are one, where that loses nothing."""
        levels, codes = tuple(self.levels[at] for at in columns), [self.codes[at] for at in columns]
        if self.link == "person":
            return replace(self, levels=levels, codes=tuple(codes))
        sizes = [one.size(0) for one in levels]
        if self.link == "none":
            whose, size = [self.person], [len(self.weight)]
        else:
            whose = [values[self.person] for values in self.sensitive.values()]
            size = [int(values.max()) + 1 for values in self.sensitive.values()]
        key, _ = combined([*whose, *codes], [*size, *sizes])
        _, first, number = np.unique(key, return_index=True, return_inverse=True)
        codes = [one[first] for one in codes]
        if self.link == "none":
            return replace(self, levels=levels, codes=tuple(codes), person=self.person[first])
        weight = np.bincount(number, weights=self.weight[self.person]).astype(np.int64)
        sensitive = {name: values[self.person[first]] for name, values in self.sensitive.items()}
        return Frequencies("rows", levels, tuple(codes), np.arange(len(first)), weight, sensitive)

    def classes(self, node: Node) -> Classes:
        """The classes at a level for each column."""
        keys, size = self._rows(node)
        if self.link == "person":
            return Classes(self._multisets(keys), np.arange(len(self.weight)))
        number = numbered(keys, size)
        if self.link == "rows":
            return Classes(number, self.person)
        pairs = np.unique(number * len(self.weight) + self.person)
        return Classes(pairs // len(self.weight), pairs % len(self.weight))

    def _rows(self, node: Node) -> tuple[np.ndarray, int]:
        pairs = zip(self.levels, self.codes, node, strict=True)
        columns = [one.codes[level][codes] for one, codes, level in pairs]
        return combined(columns, [one.size(level) for one, level in zip(self.levels, node, strict=True)])

    def _multisets(self, keys: np.ndarray) -> np.ndarray:
        begins = np.searchsorted(self.person, np.arange(len(self.weight)))
        first, second = (np.add.reduceat(_mixed(keys, by), begins) for by in _MIXERS)
        order = np.lexsort((second, first))
        new = (np.diff(first[order]) != 0) | (np.diff(second[order]) != 0)
        number = np.empty(len(order), np.int64)
        number[order] = np.concatenate([[0], np.cumsum(new)])
        return number


def combined(columns: Sequence[np.ndarray], sizes: Sequence[int]) -> tuple[np.ndarray, int]:
    """Columns of codes below ``sizes`` as one column of int64, equal where all are equal; and what it stays below."""
    key, size = np.zeros(len(columns[0]) if columns else 0, np.int64), 1
    for column, most in zip(columns, sizes, strict=True):
        if size * most > _MOST:
            _, key = np.unique(key, return_inverse=True)
            size = int(key.max()) + 1
        key = key * most + column
        size *= most
    return key, size


def numbered(key: np.ndarray, size: int) -> np.ndarray:
    """Numbers 0 to n - 1, without gaps, of the n different values of ``key``, all below ``size``."""
    if size > 8 * len(key):
        return np.unique(key, return_inverse=True)[1]
    present = np.zeros(size, np.int64)
    present[key] = 1
    return (np.cumsum(present) - 1)[key]


def _mixed(keys: np.ndarray, by: int) -> np.ndarray:
    """Each key as 64 bits in which every bit depends on all of it (the finaliser of SplitMix64)."""
    mixed = (keys.astype(np.uint64) + np.uint64(1)) * np.uint64(by)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


# What each class of people must have: k of them, and sensitive values that tell little of any one.
#
# l-diversity: Machanavajjhala et al., "l-diversity" (2007), distinct and entropy. t-closeness: Li et al. (2007), with
# the earth mover's distance for equal, ordered and hierarchical ground distances.


Distance = Literal["equal", "ordered", "hierarchical"]
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Sensitive:
    """What is asked of a sensitive column; None for what is not. ``levels`` are those of its values, whose base codes
    the people have; "ordered" takes their order and "hierarchical" their levels. The code ``gone``, of empty cells, is
    no value of l."""

    levels: Levels
    distinct_l: int | None = None
    entropy_l: float | None = None
    t: float | None = None
    distance: Distance = "equal"
    gone: int | None = None


@dataclass(frozen=True)
class Criteria:
    """At least ``k`` people in each class, and what is asked of each of the ``sensitive`` columns."""

    k: int
    sensitive: Mapping[str, Sensitive] = field(default_factory=dict)

    def require_monotone(self, frequencies: Frequencies, *, budget: int) -> None:
        """Raise ``BadInput`` where pruning would be wrong, because entropy l or t can fail after a step upward.

        Suppression: classes (10, 10) and (12, 0) need 12 people suppressed for an entropy l of 2, and joined all 32.
        The link ``none`` with several rows a person: the people of two joined classes are no mixture of both.
        """
        names = [name for name, one in self.sensitive.items() if one.entropy_l is not None or one.t is not None]
        if not names:
            return
        if budget > 0:
            raise BadInput(
                f'Entropy l-diversity and t-closeness of "{names[0]}" are not monotone under suppression, so no search '
                f"for them is exact: set `suppress` to 0 (it is {budget}), or ask for a distinct l."
            )
        if frequencies.link == "none" and len(frequencies.person) > len(frequencies.weight):
            raise BadInput(
                f'Entropy l-diversity and t-closeness of "{names[0]}" are not monotone where rows of one person are '
                'counted once and not linked: publish one row a person or link = "person", or ask for a distinct l.'
            )

    def measured(self, frequencies: Frequencies, classes: Classes) -> dict[str, np.ndarray]:
        """``k`` and, for each that is asked, ``NAME.distinct_l``, ``.entropy_l`` and ``.t``: a value for each class."""
        weight = frequencies.weight[classes.person]
        measures = {"k": np.bincount(classes.number, weights=weight, minlength=len(classes)).astype(np.int64)}
        for name, criterion in self.sensitive.items():
            values = frequencies.sensitive[name]
            size = criterion.levels.size(0)
            cells = np.bincount(
                classes.number * size + values[classes.person], weights=weight, minlength=len(classes) * size
            ).reshape(len(classes), size)
            counts = cells if criterion.gone is None else np.delete(cells, criterion.gone, axis=1)
            if criterion.distinct_l is not None:
                measures[f"{name}.distinct_l"] = (counts > 0).sum(axis=1)
            if criterion.entropy_l is not None:
                measures[f"{name}.entropy_l"] = entropy_l(counts)
            if criterion.t is not None:
                everyone = np.bincount(values, weights=frequencies.weight, minlength=size)
                measures[f"{name}.t"] = closeness(cells, everyone, criterion.distance, criterion.levels)
        return measures

    def failing(self, frequencies: Frequencies, classes: Classes) -> np.ndarray:
        """Mask (classes,) of those that do not have what is asked."""
        measures = self.measured(frequencies, classes)
        failing = measures["k"] < self.k
        for name, criterion in self.sensitive.items():
            if criterion.distinct_l is not None:
                failing |= measures[f"{name}.distinct_l"] < criterion.distinct_l
            if criterion.entropy_l is not None:
                failing |= measures[f"{name}.entropy_l"] < criterion.entropy_l - _ROUNDING
            if criterion.t is not None:
                failing |= measures[f"{name}.t"] > criterion.t + _ROUNDING
        return failing


def entropy_l(cells: np.ndarray) -> np.ndarray:
    """e to the entropy of each row of counts (classes, values): the l of entropy l-diversity, as a number of values."""
    share = cells / np.maximum(cells.sum(axis=1, keepdims=True), 1)
    return np.exp(-np.sum(share * np.log(np.where(share > 0, share, 1)), axis=1))


def closeness(cells: np.ndarray, everyone: np.ndarray, distance: Distance, levels: Levels) -> np.ndarray:
    """The earth mover's distance, 0 to 1, of each row of counts (classes, values) from those of everyone (values,)."""
    extra = cells / cells.sum(axis=1, keepdims=True) - everyone / everyone.sum()
    if distance == "equal":
        return np.abs(extra).sum(axis=1) / 2
    if distance == "ordered":
        steps = extra.shape[1] - 1
        return np.abs(np.cumsum(extra, axis=1)).sum(axis=1) / steps if steps else np.zeros(len(extra))
    cost = np.zeros(len(extra))
    for level in range(1, len(levels)):
        below, above = levels.codes[level - 1], levels.codes[level]
        parent = np.empty(levels.size(level - 1), np.int64)
        parent[below] = above
        flow = _summed(extra, below, levels.size(level - 1))
        gain = _summed(np.maximum(flow, 0), parent, levels.size(level))
        want = _summed(np.maximum(-flow, 0), parent, levels.size(level))
        cost += np.minimum(gain, want).sum(axis=1) * level / (len(levels) - 1)
    return cost


def _summed(columns: np.ndarray, into: np.ndarray, size: int) -> np.ndarray:
    """Columns (n, m) added up by their numbers ``into`` (m,), as (n, size)."""
    out = np.zeros((size, len(columns)))
    np.add.at(out, into, columns.T)
    return out.T


# What a published table lost, and how many people the raw one shows alone.


def discernibility(labels: Mapping[str, np.ndarray], rows: np.ndarray) -> int:
    """The sum over published rows of the rows that look like them, and of all rows for each that is left out.

    Bayardo and Agrawal (2005). ``rows`` (mask) are published, with ``labels`` (published rows,) for each column.
    """
    coded = [np.unique(values.astype(str), return_inverse=True) for values in labels.values()]
    key, size = combined([codes for _, codes in coded], [len(values) for values, _ in coded])
    alike = np.bincount(numbered(key, size)) if len(key) else np.zeros(0, np.int64)
    return int((alike**2).sum()) + int((~rows).sum()) * len(rows)


def unique_people(frequencies: Frequencies) -> float:
    """The share of people whom the raw values of the columns show alone, by any of their rows that nothing links."""
    classes = frequencies.classes((0,) * len(frequencies.levels))
    size = np.bincount(classes.number, weights=frequencies.weight[classes.person])
    alone = np.unique(classes.person[size[classes.number] == 1])
    return len(alone) / int(frequencies.weight.sum())


def unique_shown(labels: Mapping[str, np.ndarray], person: np.ndarray) -> float:
    """The same share of what is shown: ``labels`` (rows,) for each column, ``person`` (rows,) whose they are."""
    alone: dict[tuple[str, ...], int | None] = {}
    for who, *row in zip(person.tolist(), *labels.values(), strict=True):
        alone[tuple(row)] = who if alone.get(tuple(row), who) == who else None
    people = len(np.unique(person))
    return len({who for who in alone.values() if who is not None}) / max(people, 1)


def uniqueness(frequencies: Frequencies, names: list[str], *, most: int = 3) -> Iterator[tuple[tuple[str, ...], float]]:
    """``unique_people`` of one to ``most`` columns at a time, with their names."""
    for count in range(1, most + 1):
        for columns in itertools.combinations(range(len(names)), count):
            yield tuple(names[at] for at in columns), unique_people(frequencies.chosen(columns))
