"""Floats that would come out of a table, kept as what they would be looked up by: what is done to each of them can be
done to the table instead.

A picture of one-byte readings has at most 256 different values. Scaling and quantising it are then one walk over bytes
in place of ten over floats, with the same bits: a function of one value gives for every value of the table what it
gives for it in the picture. Nobody needs the floats, so nobody makes them, until a stage reads them as numbers.
"""

from collections.abc import Mapping
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np


class Looked(object):
    """``table[codes]``, not worked out: ``table`` (256,) and ``codes`` uint8 (n, ...), which nobody may change."""

    __slots__ = ("_numbers", "codes", "table")

    def __init__(self, table: np.ndarray, codes: np.ndarray) -> None:
        self.table, self.codes = table, codes
        self._numbers: Optional[np.ndarray] = None

    @property
    def shape(self) -> Tuple[int, ...]:
        """(n, ...)."""
        return self.codes.shape

    def __len__(self) -> int:
        return len(self.codes)

    def numbers(self) -> np.ndarray:
        """The floats (n, ...), read-only."""
        if self._numbers is None:
            self._numbers = self.table.take(self.codes)
            self._numbers.setflags(write=False)
        return self._numbers

    def erase(self) -> None:
        """Make codes and floats zeros, where their memory is ours; the table is everybody's."""
        if self.codes.flags.writeable:
            self.codes.fill(0)
        if self._numbers is not None:
            self._numbers.setflags(write=True)
            self._numbers.fill(0)


class Flow(Mapping):
    """Arrays by name, their first axis the frame. ``flow[name]`` is an array, ``held(name)`` may be a ``Looked``."""

    __slots__ = ("_held", "between", "used")

    def __init__(self, held: Dict[str, Any]) -> None:
        self._held = held
        self.between: Any = None  # what a stage of several parts hands from one to the next
        self.used: List[np.ndarray] = []  # what went that way and is nobody's any more, until it is erased

    def __getitem__(self, name: str) -> np.ndarray:
        return numbers(self._held[name])

    def __setitem__(self, name: str, value: Any) -> None:
        self._held[name] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def held(self, name: str) -> Any:
        """The array, or the ``Looked`` in its place."""
        return self._held[name]

    def erase(self) -> None:
        """Make every array zeros whose memory is the flow's to write to; for whoever has used it up."""
        between = self.between if isinstance(self.between, list) else []
        for value in [*self._held.values(), *between, *self.used]:
            if type(value) is Looked:
                value.erase()
            elif value.flags.writeable:
                value.fill(0)


def held(values: Mapping, name: str) -> Any:
    """What ``values`` holds under ``name``: of a ``Flow`` perhaps a ``Looked``, of another mapping what is there."""
    return values.held(name) if isinstance(values, Flow) else values[name]


def numbers(value: Any) -> np.ndarray:
    """``value`` as an array, be it one or a ``Looked``."""
    return value.numbers() if type(value) is Looked else value


def through(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any], np.ndarray]:
    """``function``, of each value by itself, for arrays and ``Looked``; of these it is done to each table once."""
    done: Dict[int, Any] = {}

    def run(values: Any) -> np.ndarray:
        if type(values) is not Looked:
            return function(values)
        found = done.get(id(values.table))
        # The table is kept with its result, so that its number is not given to another.
        if found is None:
            found = done[id(values.table)] = (values.table, taker(function(values.table)))
        return found[1](values.codes)

    return run


def taker(table: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The function from codes uint8 (n, ...) to ``table[codes]``, ``table`` (256,)."""
    if table.dtype.itemsize == 1 and table.dtype.kind in "iu":
        first = table.view(np.uint8)[0]
        every = np.arange(256, dtype=np.uint8)
        # Readings that are quantised with a step of their own size only move: a sum, ten times as fast as a table.
        if np.array_equal(table.view(np.uint8), every + first):
            return lambda codes: np.add(codes, first).view(table.dtype)
    return table.take
