"""Noise that is drawn fresh for each frame, from the operating system's generator.

Every function takes ``shape`` (n, ...), the frame first, and ``random_bytes`` as those of ``random_draws``. A mechanism
is deterministic: all its randomness comes from draw stages before it (*lots*, *steps*), which it uses up.
"""

import functools
import itertools
import math
import os
import threading
from typing import Any, Callable, List, Tuple

from edgeveil.edge_runtime.late_imports import np
from edgeveil.edge_runtime.lut import Flow
from edgeveil.edge_runtime.stages import random_draws
from edgeveil.edge_runtime.stages.base import Entry, Kind, Run, Value
from edgeveil.edge_runtime.stages.random_draws import LARGEST_SCALE, RandomBytes, integers
from edgeveil.edge_runtime.util.validate import shape, whole

COIN = 2**62  # a coin is true with probability numerator / COIN
LARGEST_BOUND = 2**24  # of an integer: a report of its sums is held by int32
MOST_PLACES = 4096  # of a report, or values of a category

Weighted = Tuple[np.ndarray, List[int]]  # all values (n, ...) of one draw, and the integer weight of each
_SPARE = 2  # bits of a 64-bit word that a coin of 62 does not need


# Draws made ahead, between two frames: the time that a rejection takes then says nothing of what was drawn.
MOST_ROWS = 16  # frames that come at once; a later one draws for itself
MOST_BYTES = 2**20


class Pool(object):
    """The draws of one stage for a few frames. Each is handed out once, and overwritten where it lay.

    ``draw`` maps a shape (n, ...) to fresh values, ``shape`` is that of one frame. It is empty until ``fill``; a
    process that forks must not have filled it. Two threads may use it.
    """

    def __init__(self, draw: Callable[[Tuple[int, ...]], np.ndarray], shape: Tuple[int, ...]) -> None:
        self._draw, self._shape = draw, shape
        self._kept = draw((0,) + shape)
        self._have = 0
        self._lock = threading.Lock()

    def fill(self) -> None:
        """Draw for as many frames as there is room for."""
        row_bytes = self._kept.itemsize * int(np.prod(self._shape, dtype=np.int64))
        most = max(1, min(MOST_ROWS, MOST_BYTES // row_bytes))
        with self._lock:
            if self._have == most:
                return
            if len(self._kept) != most:
                self._kept = np.zeros((most,) + self._shape, self._kept.dtype)
            fresh = self._draw((most - self._have,) + self._shape)
            self._kept[self._have :] = fresh
            fresh.fill(0)
            self._have = most

    def take(self, n: int) -> np.ndarray:
        """Draws for n frames, (n, ...): those made ahead, and fresh ones for the rest."""
        with self._lock:
            used = slice(max(0, self._have - n), self._have)
            ahead = self._kept[used].copy()
            self._kept[used] = 0
            self._have = used.start
        if len(ahead) == n:
            return ahead
        fresh = self._draw((n - len(ahead),) + self._shape)
        return np.concatenate([ahead, fresh]) if len(ahead) else fresh


def _count(shape: Tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def words(shape: Tuple[int, ...], *, random_bytes: RandomBytes = os.urandom) -> np.ndarray:
    """Independent words of 32 fair bits, uint32 ``shape``."""
    # A copy, for what was used is overwritten, and bytes cannot be.
    return np.frombuffer(random_bytes(4 * _count(shape)), np.uint32).reshape(shape).copy()


def coins(shape: Tuple[int, ...], *, numerator: int, random_bytes: RandomBytes = os.urandom) -> np.ndarray:
    """Independent coins, true with probability ``numerator`` / 2**62; bool ``shape``."""
    drawn = np.frombuffer(random_bytes(8 * _count(shape)), np.uint64) >> np.uint64(_SPARE)
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


def _product(numbers: Any) -> int:
    return functools.reduce(lambda one, other: one * other, numbers, 1)


class _Draw(Kind):
    """``dtype`` of what is drawn. ``value``: its kind, see ``manifest.dataflow``. ``sample`` maps a shape (n, ...) to
    draws, by the other keys of the stage."""

    chooses = "distribution"
    value = "lots"
    dtype = "int64"
    sample: Callable[..., np.ndarray]

    def make(self, stage: Entry, at: str, flow: Any, *taken: Value) -> Value:
        """As ``Kind``."""
        return Value(self.value, stage["shape"], self.dtype)

    def drawing(self, stage: Any) -> Callable[[Tuple[int, ...]], np.ndarray]:
        """The function from a shape (n, ...) to the draws of the stage."""
        return functools.partial(self.sample, **{key: getattr(stage, key) for key in self.fields if key != "shape"})

    def compile(self, stage: Any, context: Any) -> Run:
        """As ``Kind``."""
        target = stage.output
        settings = {key: getattr(stage, key) for key in self.fields if key != "shape"}
        pool = Pool(
            functools.partial(self.sample, **settings), tuple(stage.shape)
        )  # refuses an invalid scale before the first frame
        context.pools.append(pool)

        def run(flow: Flow) -> None:
            flow[target] = pool.take(len(flow[context.input]))

        return run

    def recorded(self, stage: Entry, n: int, rng: Any, _tables: Any) -> np.ndarray:
        """Seeded values (n, ...) by a numpy generator, for golden draws and training."""
        raise NotImplementedError

    def size(self, stage: Entry, bits: int) -> int:
        """How many values ``every`` lists."""
        raise NotImplementedError

    def every(self, stage: Entry, bits: int) -> Weighted:
        """Every value of a draw, for an exact law. ``bits``: so many of its words count each, 0 where words round."""
        raise NotImplementedError


class Uniform(_Draw):
    """Floats of [0, 1)."""

    name = "draw uniform"
    fields = {"shape": shape()}
    value, dtype = "noise", "float32"
    sample = staticmethod(random_draws.uniform)

    def recorded(self, stage: Entry, n: int, rng: Any, _tables: Any) -> np.ndarray:
        """As ``_Draw``."""
        return rng.random((n,) + tuple(stage["shape"]), np.float32)


class Steps(_Draw):
    """Whole numbers of the discrete Laplace law."""

    name = "draw laplace"
    fields = {"shape": shape(), "numerator": whole(1, LARGEST_SCALE), "denominator": whole(1, LARGEST_SCALE)}
    value = "steps"
    sample = staticmethod(random_draws.discrete_laplace)

    def recorded(self, stage: Entry, n: int, rng: Any, _tables: Any) -> np.ndarray:
        """As ``_Draw``."""
        scale = stage["numerator"] / stage["denominator"]
        return np.rint(rng.laplace(0.0, scale, (n,) + tuple(stage["shape"]))).astype(np.int64)


class Words(_Draw):
    """Words of 32 fair bits."""

    name = "draw words"
    fields = {"shape": shape()}
    dtype = "uint32"
    sample = staticmethod(words)

    def recorded(self, stage: Entry, n: int, rng: Any, _tables: Any) -> np.ndarray:
        """As ``_Draw``."""
        return rng.integers(0, 2**32, (n,) + tuple(stage["shape"]), np.uint32)

    def size(self, stage: Entry, bits: int) -> int:
        """As ``_Draw``."""
        return int(2**bits) if bits else 2

    def every(self, stage: Entry, bits: int) -> Weighted:
        """As ``_Draw``; of words that round, the smallest and the largest."""
        if bits:
            return np.arange(2**bits, dtype=np.uint32)[:, None], [1] * 2**bits
        size = tuple(stage["shape"])
        return np.stack([np.zeros(size, np.uint32), np.full(size, 2**32 - 1, np.uint32)]), [1, 1]


class Coin(_Draw):
    """Coins of one probability."""

    name = "draw coin"
    fields = {"shape": shape(0), "numerator": whole(1, COIN - 1)}
    dtype = "bool"
    sample = staticmethod(coins)

    def recorded(self, stage: Entry, n: int, rng: Any, _tables: Any) -> np.ndarray:
        """As ``_Draw``."""
        return rng.random((n,) + tuple(stage["shape"])) < stage["numerator"] / COIN

    def size(self, stage: Entry, bits: int) -> int:
        """As ``_Draw``."""
        return int(2 ** _count(tuple(stage["shape"])))

    def every(self, stage: Entry, bits: int) -> Weighted:
        """As ``_Draw``."""
        size, p = tuple(stage["shape"]), stage["numerator"]
        sides = list(itertools.product((False, True), repeat=_count(size)))
        weights = [_product(p if side else COIN - p for side in one) for one in sides]
        return np.array(sides).reshape((-1,) + size), weights


class Integer(_Draw):
    """Whole numbers below a bound, each equally likely."""

    name = "draw integer"
    fields = {"shape": shape(0), "bound": whole(1, LARGEST_BOUND)}
    sample = staticmethod(whole_numbers)

    def recorded(self, stage: Entry, n: int, rng: Any, _tables: Any) -> np.ndarray:
        """As ``_Draw``."""
        return rng.integers(0, stage["bound"], (n,) + tuple(stage["shape"]))

    def size(self, stage: Entry, bits: int) -> int:
        """As ``_Draw``."""
        return int(stage["bound"] ** _count(tuple(stage["shape"])))

    def every(self, stage: Entry, bits: int) -> Weighted:
        """As ``_Draw``."""
        size = tuple(stage["shape"])
        values = np.array(list(itertools.product(range(stage["bound"]), repeat=_count(size))), np.int64)
        return values.reshape((-1,) + size), [1] * len(values)


class Subset(_Draw):
    """So many different places, every choice equally likely."""

    name = "draw subset"
    fields = {"shape": shape(1, 1), "of": lambda stage, _: whole(stage["shape"][0], MOST_PLACES)}
    sample = staticmethod(subsets)

    def recorded(self, stage: Entry, n: int, rng: Any, _tables: Any) -> np.ndarray:
        """As ``_Draw``."""
        places = rng.permuted(np.tile(np.arange(stage["of"]), (n, 1)), axis=1)[:, : stage["shape"][0]]
        return np.sort(places, axis=1)

    def size(self, stage: Entry, bits: int) -> int:
        """As ``_Draw``."""
        k = stage["shape"][0]
        return math.factorial(stage["of"]) // (math.factorial(k) * math.factorial(stage["of"] - k))

    def every(self, stage: Entry, bits: int) -> Weighted:
        """As ``_Draw``."""
        chosen = np.array(list(itertools.combinations(range(stage["of"]), stage["shape"][0])), np.int64)
        return chosen, [1] * len(chosen)
