"""How far a mean or a share can be off that is estimated from locally private reports, before anything is trained.

A mechanism's own variance of one report is ``edgeveil.edge_runtime.stages.mechanism.Mechanism.variance``.
"""

from __future__ import annotations

import math

import numpy as np

DEVICES = (1_000, 10_000, 100_000)


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
