"""Means of many values and their standard errors, from blocks that are forgotten at once."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

FEWEST_UNITS = 100  # below, a normal interval over units says more than is known
Z = NormalDist().inv_cdf(0.975)


class ByReport:
    """Every row of the values is a unit of its own. Blocks are merged by Chan, Golub and LeVeque (1979)."""

    def __init__(self, width: int) -> None:
        self.rows = 0
        self.mean = np.zeros(width)
        self._squares = np.zeros(width)  # sum of squared distances from the mean

    @property
    def units(self) -> int:
        return self.rows

    def add(self, values: np.ndarray, _units: np.ndarray) -> None:
        """Count values float64 (n, width)."""
        if not len(values):
            return
        mean = values.mean(axis=0)
        away = mean - self.mean
        before, self.rows = self.rows, self.rows + len(values)
        self._squares += ((values - mean) ** 2).sum(axis=0) + away**2 * (before * len(values) / self.rows)
        self.mean = self.mean + away * (len(values) / self.rows)

    def standard_error(self) -> np.ndarray | None:
        """Of the mean (width,); None with fewer than ``FEWEST_UNITS`` units."""
        if self.units < FEWEST_UNITS:
            return None
        return np.sqrt(self._squares / (self.rows - 1) / self.rows)


class ByUnit:
    """Rows of one unit may depend on each other: the error is that of a ratio of sums over units (Cochran 1977)."""

    def __init__(self, width: int) -> None:
        self._place: dict[bytes, int] = {}
        self._sums = np.zeros((FEWEST_UNITS, width))
        self._counts = np.zeros(FEWEST_UNITS, np.int64)

    @property
    def units(self) -> int:
        return len(self._place)

    @property
    def rows(self) -> int:
        return int(self._counts.sum())

    @property
    def mean(self) -> np.ndarray:
        return self._sums.sum(axis=0) / max(1, self.rows)

    def add(self, values: np.ndarray, units: np.ndarray) -> None:
        """Count values float64 (n, width) of ``units``, bytes (n,)."""
        names, at = np.unique(units, return_inverse=True)
        places = np.array([self._place.setdefault(name, len(self._place)) for name in names.tolist()], np.int64)
        while len(self._counts) < self.units:
            self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)])
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        np.add.at(self._sums, places[at], values)
        np.add.at(self._counts, places[at], 1)

    def standard_error(self) -> np.ndarray | None:
        """As that of ``ByReport``."""
        if self.units < FEWEST_UNITS:
            return None
        sums, counts = self._sums[: self.units], self._counts[: self.units, None]
        squares = ((sums - counts * self.mean) ** 2).sum(axis=0)
        return np.sqrt(squares * self.units / (self.units - 1)) / self.rows
