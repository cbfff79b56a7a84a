"""Floats that came out of a table, and remember it: what is done to each of them can be done to the table instead.

A picture of one-byte readings has at most 256 different values. Scaling, quantising and scaling back are then three
walks over bytes instead of twenty over floats, with the same bits: a function of one value gives for every value of the
table what it gives for it in the picture.
"""

from typing import Any, Callable, Dict, Optional

import numpy as np


class Looked(np.ndarray):
    """``table[codes]``, read-only. ``codes`` are bytes; what is made of it by numpy is an array without them."""

    codes: Optional[np.ndarray]
    table: Optional[np.ndarray]

    def __array_finalize__(self, _other: Any) -> None:
        self.codes = self.table = None


def look_up(table: np.ndarray, codes: np.ndarray) -> Looked:
    """``table`` (256,) at ``codes`` uint8 (n, ...)."""
    looked = table.take(codes).view(Looked)
    looked.codes, looked.table = codes, table
    # In place, nothing can come between the values and what they were looked up from.
    looked.flags.writeable = False
    return looked


def through(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """``function``, of each value by itself, done to the tables of what was looked up; each table once."""
    done: Dict[int, Any] = {}

    def run(values: np.ndarray) -> np.ndarray:
        if not isinstance(values, Looked) or values.codes is None:
            return function(values)
        found = done.get(id(values.table))
        # The table is kept with its result, so that its number is not given to another.
        if found is None:
            found = done[id(values.table)] = (values.table, function(np.asarray(values.table)))
        return found[1].take(values.codes)

    return run
