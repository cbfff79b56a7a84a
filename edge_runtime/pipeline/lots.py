"""Draws that a mechanism uses up: words, coins, integers and subsets, exact, from the operating system's generator.

Every function takes ``shape`` (n, ...), the frame first, and ``random_bytes`` as those of ``random_draws``.
"""

import functools
import os
from typing import Callable, Tuple

import numpy as np

from edgeveil.edge_runtime.manifest.manifest import Stage
from edgeveil.edge_runtime.pipeline.random_draws import RandomBytes, integers

_SPARE = np.uint64(2)  # bits of a 64-bit word that a coin of 62 does not need


def _count(shape: Tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def words(shape: Tuple[int, ...], *, random_bytes: RandomBytes = os.urandom) -> np.ndarray:
    """Independent words of 32 fair bits, uint32 ``shape``."""
    # A copy, for what was used is overwritten, and bytes cannot be.
    return np.frombuffer(random_bytes(4 * _count(shape)), np.uint32).reshape(shape).copy()


def coins(shape: Tuple[int, ...], *, numerator: int, random_bytes: RandomBytes = os.urandom) -> np.ndarray:
    """Independent coins, true with probability ``numerator`` / 2**62; bool ``shape``."""
    drawn = np.frombuffer(random_bytes(8 * _count(shape)), np.uint64) >> _SPARE
    return (drawn < np.uint64(numerator)).reshape(shape)


def whole_numbers(shape: Tuple[int, ...], *, bound: int, random_bytes: RandomBytes = os.urandom) -> np.ndarray:
    """Independent integers, each of 0 .. ``bound`` - 1 equally likely; int64 ``shape``."""
    return integers(bound, _count(shape), random_bytes=random_bytes).reshape(shape)


def subsets(shape: Tuple[int, int], *, of: int, random_bytes: RandomBytes = os.urandom) -> np.ndarray:
    """For each of n rows, k different places of 0 .. ``of`` - 1, every choice equally likely; int64 (n, k), ascending.

    Floyd's algorithm (Bentley and Floyd, "A Sample of Brilliance", 1987): one integer for each place.
    """
    n, k = shape
    chosen = np.empty((n, k), np.int64)
    for place in range(k):
        last = of - k + place
        drawn = integers(last + 1, n, random_bytes=random_bytes)
        taken = (chosen[:, :place] == drawn[:, None]).any(axis=1)
        chosen[:, place] = np.where(taken, last, drawn)
    chosen.sort(axis=1)
    return chosen


def drawing(stage: Stage) -> Callable[[Tuple[int, ...]], np.ndarray]:
    """The function from a shape (n, ...) to the draws of a ``draw`` stage of lots."""
    if stage.distribution == "coin":
        return functools.partial(coins, numerator=stage.numerator)
    if stage.distribution == "integer":
        return functools.partial(whole_numbers, bound=stage.bound)
    if stage.distribution == "subset":
        return functools.partial(subsets, of=stage.of)
    return words
