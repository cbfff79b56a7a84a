"""Arrays kept as one-byte codes and a lookup table (LUT) of 256 values until a stage needs the values.

A picture of one-byte samples has at most 256 different values. An elementwise function can be applied to the table
instead of the picture, with the same bits: scaling and quantising then take one pass over bytes, not ten over floats.
"""

import collections.abc
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from edgeveil.edge_runtime.late_imports import np


class LutArray(object):
    """``table[codes]``, not computed yet: ``table`` (256,) and ``codes`` uint8 (n, ...). Neither may be changed."""

    __slots__ = ("_array", "codes", "table")

    def __init__(self, table: np.ndarray, codes: np.ndarray) -> None:
        self.table, self.codes = table, codes
        self._array: Optional[np.ndarray] = None

    @property
    def shape(self) -> Tuple[int, ...]:
        """(n, ...)."""
        return self.codes.shape

    def __len__(self) -> int:
        return len(self.codes)

    def array(self) -> np.ndarray:
        """The values (n, ...), read-only; computed once."""
        if self._array is None:
            self._array = self.table.take(self.codes)
            self._array.setflags(write=False)
        return self._array

    def erase(self) -> None:
        """Overwrite codes and values with zeros, where their memory is writable. The table is shared and stays."""
        if self.codes.flags.writeable:
            self.codes.fill(0)
        if self._array is not None:
            self._array.setflags(write=True)
            self._array.fill(0)


class Flow(collections.abc.Mapping):
    """Arrays by name, their first axis the frame. ``flow[name]`` is an array, ``lazy(name)`` may be a ``LutArray``."""

    __slots__ = ("_held", "between", "used")

    def __init__(self, held: Dict[str, Any]) -> None:
        self._held = held
        self.between: Any = None  # passed between the parts of a model stage
        self.used: List[np.ndarray] = []  # such values after use, until they are erased

    def __getitem__(self, name: str) -> np.ndarray:
        return as_array(self._held[name])

    def __setitem__(self, name: str, value: Any) -> None:
        self._held[name] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def lazy(self, name: str) -> Any:
        """The array, or the ``LutArray`` in its place."""
        return self._held[name]

    def erase(self) -> None:
        """Overwrite every writable array of the flow with zeros, after use."""
        between = self.between if isinstance(self.between, list) else []
        for value in [*self._held.values(), *between, *self.used]:
            if type(value) is LutArray:
                value.erase()
            elif value.flags.writeable:
                value.fill(0)


def lazy(values: Mapping[str, Any], name: str) -> Any:
    """The entry ``name`` of a mapping; of a ``Flow``, its ``LutArray`` where there is one."""
    return values.lazy(name) if isinstance(values, Flow) else values[name]


def as_array(value: Any) -> np.ndarray:
    """The array of a value that may be a ``LutArray``."""
    return value.array() if type(value) is LutArray else value


def map_values(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any], np.ndarray]:
    """An elementwise ``function`` for arrays and ``LutArray``; it is applied to each table once."""
    done: Dict[int, Any] = {}

    def run(values: Any) -> np.ndarray:
        if type(values) is not LutArray:
            return function(values)
        cached = done.get(id(values.table))
        # The table is kept with its result, so that no other table gets its id.
        if cached is None:
            cached = done[id(values.table)] = (values.table, gather(function(values.table)))
        return cached[1](values.codes)

    return run


def gather(table: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The function from codes uint8 (n, ...) to ``table[codes]``, ``table`` (256,)."""
    if table.dtype.itemsize == 1 and table.dtype.kind in "iu":
        first = table.view(np.uint8)[0]
        every = np.arange(256, dtype=np.uint8)
        # For a table that only shifts its codes, a sum is ten times as fast as a lookup.
        if np.array_equal(table.view(np.uint8), every + first):
            return lambda codes: np.add(codes, first).view(table.dtype)
    return table.take
