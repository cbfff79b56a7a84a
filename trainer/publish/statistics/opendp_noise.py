"""Noise of OpenDP, at the smallest scale that spends no more than an epsilon.

OpenDP's noise is exact and comes from the operating system; its map of each mechanism says what one person can cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

STEPS = 2**20
OUTSIDE = 0.05  # how often a result is further off than ``within``


class Noisy(NamedTuple):
    """Values with noise of one ``scale``; 95 % of the time each is off by no more than ``within``."""

    values: list[float]
    scale: float
    within: float


class _Mechanism(NamedTuple):
    """A measurement of OpenDP with its scale."""

    run: Callable[[list[int]], Any]
    scale: float
    within: float


def geometric(counts: Sequence[int], *, most: int, epsilon: float) -> Noisy:
    """Counts that one person changes by ``most`` in all, with geometric noise: whole numbers, perhaps below 0."""
    mechanism = _of_counts(most, epsilon)
    return Noisy(mechanism.run([int(one) for one in counts]), mechanism.scale, mechanism.within)


def laplace_sum(parts: Sequence[float], *, most: float, epsilon: float) -> Noisy:
    """The sum of one number of each person, clipped to -``most`` and ``most``, with Laplace noise.

    Numbers are rounded to 2^-20 of ``most``: whole numbers add up without error, and a sum of float64 that OpenDP can
    vouch for takes noise twice as large.
    """
    mechanism, step = _of_sums(epsilon), most / STEPS
    total = mechanism.run([round(one / step) for one in parts])
    return Noisy([total * step], mechanism.scale * step, mechanism.within * step)


@cache
def _of_counts(most: int, epsilon: float) -> _Mechanism:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return _smallest(lambda scale: dp.m.make_geometric(*space, scale=scale), most, epsilon)


@cache
def _of_sums(epsilon: float) -> _Mechanism:
    dp = _opendp()
    people = dp.vector_domain(dp.atom_domain(T="i64")), dp.symmetric_distance()
    total = people >> dp.t.then_clamp((-STEPS, STEPS)) >> dp.t.then_sum()
    return _smallest(lambda scale: total >> dp.m.then_laplace(scale), 1, epsilon)


def _smallest(make: Callable[[float], Any], distance: int, epsilon: float) -> _Mechanism:
    dp = _opendp()
    scale = dp.binary_search_param(make, d_in=distance, d_out=epsilon)
    return _Mechanism(make(scale), scale, dp.discrete_laplacian_scale_to_accuracy(scale=scale, alpha=OUTSIDE))


def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp
