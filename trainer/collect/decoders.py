"""What a report is worth: an unbiased value, float64, for each report that its mechanism can make.

The mean of the values is the estimate, whatever the reports are: coordinates of x for a vector, for a category the
shares of all categories (a vector whose mean is a histogram). A decoder also knows which reports its mechanism makes:
another one was made up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy import linalg, sparse

SATURATED = 2**24  # the most steps of a Laplace report, either way


class Decoder(Protocol):
    """``width``: values of a report. ``spread`` (width,): the most by which two reports can differ in each value;
    ``spread_up_to``: in the sum of the values up to each."""

    width: int
    spread: np.ndarray
    spread_up_to: np.ndarray

    def made(self, reports: np.ndarray) -> np.ndarray:
        """Mask (n,) of the reports that the mechanism can make."""
        ...

    def values(self, reports: np.ndarray) -> np.ndarray:
        """Float64 (n, width), of reports that it can make."""
        ...


class Linear:
    """x~ = [report, 1] times a table (places + 1, ...): the bundle's decoder, or one that is made here."""

    def __init__(self, table: np.ndarray, made: Callable[[np.ndarray], np.ndarray], spread: np.ndarray) -> None:
        flat = table.reshape(len(table), -1).astype(np.float64)
        # A mechanism's table has one place or two in a column: full matrices would take d times as long.
        self._weights, self._start = sparse.csc_array(flat[:-1]), flat[-1]
        self.width = flat.shape[1]
        self.spread, self.spread_up_to = spread, spread.cumsum()
        self.made = made

    def values(self, reports: np.ndarray) -> np.ndarray:
        """As ``Decoder``."""
        return reports.astype(np.float64) @ self._weights + self._start


def weights(table: np.ndarray) -> np.ndarray:
    """The sizes of a table's factors, (places, width)."""
    return np.abs(table[:-1].reshape(len(table) - 1, -1).astype(np.float64))


def duchi_linf(table: np.ndarray) -> Linear:
    """Corners of a cube, each place -1 or 1."""
    return Linear(table, lambda reports: (np.abs(reports) == 1).all(axis=1), 2 * weights(table).sum(axis=0))


def duchi_l2(table: np.ndarray) -> Linear:
    """Directions: of length 1 as far as float32 has it; not true of what is not finite."""

    def made(reports: np.ndarray) -> np.ndarray:
        lengths: np.ndarray = np.linalg.norm(reports.astype(np.float64), axis=1)
        return np.abs(lengths - 1.0) <= 1e-5

    return Linear(table, made, 2 * np.linalg.norm(weights(table), axis=0))


def laplace(table: np.ndarray) -> Linear:
    """Steps of a grid, saturating."""

    def made(reports: np.ndarray) -> np.ndarray:
        return np.abs(reports.astype(np.int64)).max(axis=1) <= SATURATED

    return Linear(table, made, 2 * SATURATED * weights(table).sum(axis=0))


def hybrid(table: np.ndarray, *, chosen: int, positions: int) -> Linear:
    """``chosen`` of d places, each in the first half a position of so many (0: there is no first half), centred and
    doubled, or in the second half -1 or 1."""
    most = positions - 1 if positions else 0

    def made(reports: np.ndarray) -> np.ndarray:
        place, sign = np.split(reports.astype(np.int64), 2, axis=1)
        fits = ((np.abs(place) <= most) & ((place - most) % 2 == 0)) | (place == 0)
        fits &= (np.abs(sign) <= 1) & ((place == 0) | (sign == 0))
        return fits.all(axis=1) & (((place != 0) | (sign != 0)).sum(axis=1) <= chosen)

    of_place, of_sign = np.split(weights(table), 2)
    return Linear(table, made, 2 * np.maximum(of_place * most, of_sign).sum(axis=0))


def unary(k: int, p: float, q: float) -> Linear:
    """Bits (k,), the category's own true with probability ``p``, each other one with ``q``: (bit - q) / (p - q)."""
    table = np.vstack([np.eye(k), np.full(k, -q)]) / (p - q)
    return Linear(table, lambda bits: ((bits == 0) | (bits == 1)).all(axis=1), weights(table).sum(axis=0))


class Rows:
    """Reports that are numbers 0 .. R - 1, each worth the row of a table float64 (R, width)."""

    def __init__(self, table: np.ndarray) -> None:
        self._table = table
        self.width = table.shape[1]
        self.spread, self.spread_up_to = np.ptp(table, axis=0), np.ptp(table.cumsum(axis=1), axis=0)

    def made(self, reports: np.ndarray) -> np.ndarray:
        """As ``Decoder``."""
        return (reports >= 0) & (reports < len(self._table))

    def values(self, reports: np.ndarray) -> np.ndarray:
        """As ``Decoder``."""
        return self._table[reports]


def channel(counts: np.ndarray) -> Rows:
    """Of a channel uint32 (k, R): rows whose mean is the category's own unit vector under the channel.

    Raises ``numpy.linalg.LinAlgError`` where two categories cannot be told apart.
    """
    law = counts / counts.sum(axis=1, keepdims=True, dtype=np.float64)
    if np.linalg.matrix_rank(law) < len(law):
        raise np.linalg.LinAlgError
    return Rows(np.linalg.inv(law) if law.shape[0] == law.shape[1] else np.linalg.pinv(law))


def hadamard(rows: int, p: float) -> Rows:
    """Numbers 2 row + bit, the bit 1 where H[row, category] = 1 is true as a coin of probability ``p`` is."""
    signs = linalg.hadamard(rows, float) / (2 * p - 1)
    return Rows(np.stack([-signs, signs], axis=1).reshape(2 * rows, rows))
