"""Who looks like whom once some columns are generalised: frequency sets on integer codes, and classes of people.

What k is counted over depends on what links the rows that are published:

* ``person``: a pseudonym links the rows of each person. A person is the multiset of their generalised rows, and people
  with equal multisets are a class.
* ``none``: nothing links rows. A class is rows that are equal, and the people it holds are counted, each once.
* ``rows``: a table in which every row stands for somebody else, or for nobody.

A multiset is known by two sums, modulo 2^64, of mixed codes of its rows: two different ones collide with a chance of
about n^2 / 2^129 for n people, and what was written is counted again without sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from edgeveil.trainer.publish.anonymity.levels import Levels

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
        there = people[self.person]
        return Classes(numbered(self.number[there], len(self)), self.person[there])


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
    there = np.zeros(size, np.int64)
    there[key] = 1
    return (np.cumsum(there) - 1)[key]


def _mixed(keys: np.ndarray, by: int) -> np.ndarray:
    """Each key as 64 bits in which every bit depends on all of it (the finaliser of SplitMix64)."""
    mixed = (keys.astype(np.uint64) + np.uint64(1)) * np.uint64(by)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
