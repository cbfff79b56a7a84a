"""Privacy noise from the operating system's generator: exact integers by rejection, never a seed.

Every function takes ``random_bytes`` (count -> bytes), so that tests can feed it; the default is ``os.urandom``.
"""

import os
from typing import Callable, Tuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.late_imports import np

RandomBytes = Callable[[int], bytes]


def integers(bound: int, count: int, *, random_bytes: RandomBytes = os.urandom) -> np.ndarray:
    """``count`` independent integers, each value of 0 .. bound - 1 equally likely; int64 (count,).

    ``bound`` is 1 to 2**63. Random bits are masked to the width of ``bound`` and drawn again when they lie outside it:
    a remainder (``% bound``) would favour small values.
    """
    if not 1 <= bound <= 2**63:
        raise BadInput("expected a bound of 1 to 2**63; got {}".format(bound))
    mask = np.uint64((1 << (bound - 1).bit_length()) - 1)

    def accepted(tries: int) -> np.ndarray:
        words = np.frombuffer(random_bytes(8 * tries), np.uint64) & mask
        return words[words < np.uint64(bound)]

    return _by_rejection(accepted, count)


def _by_rejection(accepted: Callable[[int], np.ndarray], count: int) -> np.ndarray:
    """The first ``count`` accepted values, int64 (count,); ``accepted(tries)`` returns those among so many tries."""
    out = np.empty(count, np.int64)
    have = 0
    while have < count:
        values = accepted(count - have)[: count - have]
        out[have : have + len(values)] = values
        have += len(values)
    return out


def uniform(shape: Tuple[int, ...], *, random_bytes: RandomBytes = os.urandom) -> np.ndarray:
    """Independent floats on the 2**24 evenly spaced points of [0, 1), each exact in float32; float32 ``shape``."""
    count = int(np.prod(shape, dtype=np.int64))
    words = np.frombuffer(random_bytes(4 * count), np.uint32) >> np.uint32(8)
    return (words.astype(np.float32) * np.float32(2.0**-24)).reshape(shape)


LARGEST_SCALE = 2**40  # of numerator and denominator: no product below comes near 2**63


def discrete_laplace(
    shape: Tuple[int, ...], *, numerator: int, denominator: int, random_bytes: RandomBytes = os.urandom
) -> np.ndarray:
    """Independent whole numbers, k with probability proportional to exp(-|k| denominator / numerator); int64 ``shape``.

    Exact: integers alone, by rejection (Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy",
    2020, algorithm 2), without a logarithm or a table that would cut the tails. The time depends only on the draws.
    ``numerator / denominator`` is the scale; both are 1 to 2**40. Raises ``BadInput`` else.
    """
    if not (1 <= numerator <= LARGEST_SCALE and 1 <= denominator <= LARGEST_SCALE):
        raise BadInput(
            "expected a scale of two whole numbers of 1 to 2**40; got {} / {}".format(numerator, denominator)
        )
    # Two of three tries are accepted; surplus ones may be discarded, for they are as good as the others.
    count = int(np.prod(shape, dtype=np.int64))
    return _by_rejection(lambda n: _laplace_tries(2 * n, numerator, denominator, random_bytes), count).reshape(shape)


def _laplace_tries(count: int, numerator: int, denominator: int, random_bytes: RandomBytes) -> np.ndarray:
    """The accepted ones of ``count`` tries, in order."""
    rest = integers(numerator, count, random_bytes=random_bytes)
    rest = rest[_exponential_coins(rest, numerator, random_bytes)]
    whole = _heads_in_a_row(len(rest), random_bytes)
    size = (rest + numerator * whole) // denominator
    negative = integers(2, len(size), random_bytes=random_bytes) == 1
    # 0 from both signs would be twice as likely.
    return np.where(negative, -size, size)[~(negative & (size == 0))]


def _heads_in_a_row(count: int, random_bytes: RandomBytes) -> np.ndarray:
    """The number of heads of a coin of probability 1/e before its first tails; int64 (count,)."""
    out = np.zeros(count, np.int64)
    alive = np.arange(count)
    while len(alive):
        alive = alive[_exponential_coins(np.ones(len(alive), np.int64), 1, random_bytes)]
        out[alive] += 1
    return out


def _exponential_coins(parts: np.ndarray, of: int, random_bytes: RandomBytes) -> np.ndarray:
    """Independent coins (n,), true with probability exp(-parts / of), for parts int64 (n,) of 0 to ``of``.

    The place where a run of coins of probability x, x/2, x/3, ... ends is odd with probability exp(-x).
    """
    out = np.empty(len(parts), bool)
    alive, k = np.arange(len(parts)), 1
    while len(alive):
        heads = integers(of * k, len(alive), random_bytes=random_bytes) < parts[alive]
        out[alive[~heads]] = k % 2 == 1
        alive, k = alive[heads], k + 1
    return out


class Channel(object):
    """A noisy channel: code r becomes code c with probability ``table[r, c] / sum(table[r])``, exactly.

    ``table`` is uint32 (R, C) and every row sums to the same power of two, at most 2**32. Raises ``BadInput`` else.
    """

    def __init__(self, table: np.ndarray) -> None:
        if table.ndim != 2 or table.dtype != np.uint32 or not table.size:
            raise BadInput("expected a channel table of uint32 (R, C); got {} {}".format(table.dtype, table.shape))
        # Inverse distribution function in integers: exact, without rounding.
        self._edges = np.cumsum(table, axis=1, dtype=np.uint64)
        totals = self._edges[:, -1]
        total = int(totals[0])
        if total < 1 or total > 2**32 or total & (total - 1) or (totals != totals[0]).any():
            raise BadInput("expected every row of a channel table to sum to the same power of two, at most 2**32")
        self._mask = np.uint64(total - 1)
        self.rows, self.columns = table.shape

    def draw(self, codes: np.ndarray, *, random_bytes: RandomBytes = os.urandom) -> np.ndarray:
        """Codes int64 (n,) within 0 .. rows - 1 in, drawn codes int64 (n,) out."""
        # As ``integers``, of whose tries a power of two refuses none.
        u = np.frombuffer(random_bytes(8 * len(codes)), np.uint64) & self._mask
        # Every edge of the row is compared, so that the time does not reveal the result.
        return np.add.reduce(self._edges.take(codes, 0) <= u[:, None], 1, np.int64)
