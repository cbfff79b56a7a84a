"""How far a mean or a share can be off that is estimated from locally private reports, before anything is trained.

Variances of one report's unbiased estimate of one value, at the reading where they are largest. Of a vector: in squared
half ranges times the radius, d values. Of categories: of a share near 0, k categories.
"""

from __future__ import annotations

import math

import numpy as np

DEVICES = (1_000, 10_000, 100_000)
PER_COORDINATE = 2.5  # of alpha: hybrid reports one coordinate for each (Wang et al., ICDE 2019, section IV)
FEWEST = 0.61  # alpha of a coordinate from which hybrid mixes in the piecewise mechanism


def cube_bound(d: int, alpha: float) -> float:
    """B of duchi-linf: a report of +-1 times B is unbiased (Duchi et al. 2017; even d has a fair dummy coordinate)."""
    odd = d + (d % 2 == 0)
    log_binomial = math.lgamma(odd) - 2 * math.lgamma((odd + 1) / 2)
    return math.exp((odd - 1) * math.log(2) - log_binomial) / math.tanh(alpha / 2)


def ball_bound(d: int, alpha: float) -> float:
    """B of duchi-l2: a report on the unit sphere times B is unbiased (Duchi et al. 2017)."""
    log_ratio = math.lgamma((d + 1) / 2) - math.lgamma(d / 2 + 1)
    return math.sqrt(math.pi) / 2 * d * math.exp(log_ratio) / math.tanh(alpha / 2)


def hybrid_moment(alpha: float, x2: float) -> float:
    """E t^2 of hybrid's report of one coordinate whose square is ``x2`` (Wang et al., equations 4, 6 and 7)."""
    duchi = 1 / math.tanh(alpha / 2) ** 2
    if alpha <= FEWEST:
        return duchi
    half = math.exp(alpha / 2)
    piecewise = x2 * half / (half - 1) + (half + 3) / (3 * (half - 1) ** 2)
    return (1 - 1 / half) * piecewise + duchi / half


def vector_variance(mechanism: str, d: int, alpha: float) -> float:
    """The largest variance of one coordinate for readings of d values."""
    if mechanism == "duchi-linf":
        return cube_bound(d, alpha) ** 2
    if mechanism == "duchi-l2":
        return ball_bound(d, alpha) ** 2 / d
    if mechanism == "laplace":
        return 8 * (d / alpha) ** 2
    k = max(1, min(d, math.floor(alpha / PER_COORDINATE)))
    return max(d / k * hybrid_moment(alpha / k, x2) - x2 for x2 in (0.0, 1.0))


def category_variance(mechanism: str, k: int, alpha: float) -> float:
    """The variance of one report's estimate of a share near 0, of k categories (Wang et al., USENIX Security 2017)."""
    odds = math.exp(alpha)
    if mechanism == "k-rr":
        return (odds + k - 2) / (odds - 1) ** 2
    if mechanism == "oue":
        return 4 * odds / (odds - 1) ** 2
    return ((odds + 1) / (odds - 1)) ** 2


def largest_of(d: int) -> float:
    """The mean of the largest of d absolute values of independent standard normal variables."""
    from scipy.special import erf

    t = np.linspace(0.0, 12.0, 24_001)
    return float(np.trapezoid(1 - erf(t / math.sqrt(2)) ** d, t))


def expected_error(variance: float, values: int) -> dict[str, dict[str, float]]:
    """For each number of ``DEVICES`` the standard error of one value and the expected largest error of all."""
    found = {}
    for n in DEVICES:
        one = math.sqrt(variance / n)
        found[str(n)] = {"one": float(f"{one:.3g}"), "largest": float(f"{one * largest_of(values):.3g}")}
    return found
