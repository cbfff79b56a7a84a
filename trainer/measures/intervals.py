"""95 % intervals for rates and means, also of rows that are not independent.

Independent rows: Wilson's score interval (Wilson 1927; recommended by Brown, Cai & DasGupta 2001).

Rows in clusters (frames of one recording, records of one person): the same interval at the *effective* number of
rows n / deff, shrunk by (z / t)^2 for the few clusters that the design effect deff itself was estimated from
(Korn & Graubard 1998, section 3; Dean & Pagano 2015 and Franco et al. 2019 find the Wilson form of it the most
reliable at small samples). A rate of 0 or 1 shows no variance to estimate deff from; there every cluster counts once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
_Z = float(stats.norm.ppf(0.5 + CONFIDENCE / 2))


class Interval(NamedTuple):
    """An estimate with the ends of its 95 % interval."""

    estimate: float
    low: float
    high: float


def rate(hits: np.ndarray, cluster: np.ndarray | None = None) -> Interval:
    """The share of true values of ``hits`` (n,) with its interval; ``cluster`` (n,) numbers the independent units.

    One cluster, or no row at all, says nothing about the population: the interval is then [0, 1].
    """
    hits = np.asarray(hits, np.float64)
    if len(hits) == 0:
        return Interval(float("nan"), 0.0, 1.0)
    p = float(hits.mean())
    if cluster is None:
        return Interval(p, *wilson(p, len(hits)))
    units = len(np.unique(cluster))
    if units < 2:
        return Interval(p, 0.0, 1.0)
    if p in (0.0, 1.0):
        n_effective = float(units)
    else:
        design_effect = max(1.0, _standard_error(hits, cluster) ** 2 * len(hits) / (p * (1 - p)))
        n_effective = max(1.0, len(hits) / design_effect)
    return Interval(p, *wilson(p, n_effective * (_Z / student(units)) ** 2))


def mean(values: np.ndarray, cluster: np.ndarray | None = None) -> Interval:
    """The mean of ``values`` (n,) and its interval from Student's t over rows, or over clusters where given."""
    values = np.asarray(values, np.float64)
    units = len(values) if cluster is None else len(np.unique(cluster))
    if units < 2:
        return Interval(float(values.mean()) if len(values) else float("nan"), float("-inf"), float("inf"))
    estimate, half = float(values.mean()), student(units) * _standard_error(values, cluster)
    return Interval(estimate, estimate - half, estimate + half)


def student(units: int) -> float:
    """The quantile of Student's t that a 95 % interval over so many units takes."""
    return float(stats.t.ppf(0.5 + CONFIDENCE / 2, units - 1))


def clipped(estimate: float, half: float) -> Interval:
    """A share with ``half`` of its interval on either side, as far as these are shares."""
    return Interval(estimate, max(0.0, estimate - half), min(1.0, estimate + half))


def wilson(p: float, n: float) -> tuple[float, float]:
    """Both ends of Wilson's score interval for a rate p seen on n (not necessarily whole) rows."""
    z2 = _Z * _Z
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z / (1 + z2 / n) * float(np.sqrt(p * (1 - p) / n + z2 / (4 * n * n)))
    # Rounding may leave the estimate itself a hair outside at 0 and at 1.
    return min(p, max(0.0, middle - half)), max(p, min(1.0, middle + half))


def wider(intervals: int) -> float:
    """By how much an interval of 95 % grows if it is to hold for that many at once (Bonferroni)."""
    return float(stats.norm.ppf(1 - (1 - CONFIDENCE) / 2 / intervals)) / _Z


def unit_numbers(rows: int, cluster: np.ndarray | None) -> np.ndarray:
    """The number of each row's independent unit (n,), from 0: its cluster, or the row itself where none is given."""
    return np.arange(rows) if cluster is None else np.unique(cluster, return_inverse=True)[1].reshape(-1)


def count(*places: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """How many rows have each combination of class numbers (n,), such as y, code and z: float64 of ``shape``."""
    counts = np.zeros(shape)
    np.add.at(counts, places, 1.0)
    return counts


def _standard_error(values: np.ndarray, cluster: np.ndarray | None) -> float:
    """Of the mean; with clusters by Taylor linearisation of the ratio (sum of values / number of rows)."""
    n = len(values)
    if cluster is None:
        return float(values.std(ddof=1)) / float(np.sqrt(n))
    totals = np.bincount(unit_numbers(n, cluster), weights=values - values.mean())
    units = len(totals)
    return float(np.sqrt(units / (units - 1) * np.sum(totals**2))) / n
