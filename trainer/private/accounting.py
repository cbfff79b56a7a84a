"""What training by noisy, clipped sums costs: epsilon at delta of the Poisson-subsampled Gaussian mechanism.

Two accountants bound the same loss from above: Rényi divergences (Mironov 2017) and the discretised privacy loss
distribution, rounded towards more loss. The smaller of two valid bounds is a valid bound, and is what is claimed.
Neighbours are data sets of which one has one unit more.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from scipy import optimize

from edgeveil.edge_runtime.errors import BadInput

GRID, FINE_GRID, FINE_BELOW = 1e-4, 1e-5, 0.5  # of privacy losses; below that epsilon the coarse grid shows
MOST_EPSILON = 50.0
CLOSE = 1e-3  # relative, of sigma
LEAST_NOISE = 0.05  # times the clip
HOPELESS = 1e4  # epsilon, above all that is promised


@dataclass(frozen=True)
class Claim:
    """Epsilon at ``delta`` after ``steps`` lots, in each of which a unit is with probability ``rate``; noise of
    ``sigma`` times the clip. ``rdp`` and ``pld`` are both bounds, ``grid`` that of ``pld``."""

    epsilon: float
    delta: float
    rate: float
    sigma: float
    steps: int
    rdp: float
    pld: float
    grid: float
    accountant: str

    def as_dict(self) -> dict[str, Any]:
        """For a record."""
        return asdict(self)


def claim(*, rate: float, sigma: float, steps: int, delta: float) -> Claim:
    """What a training spends. Raises ``BadInput`` for settings that mean nothing, or where no bound is finite."""
    _check(rate, steps, delta)
    if not (sigma > 0 and math.isfinite(sigma)):
        raise BadInput(f"Expected noise of more than 0 times the clip; got {sigma}.")
    rdp, grid = by_rdp(rate, sigma, steps, delta), GRID
    # The grid of such losses would fill the memory.
    pld = by_pld(rate, sigma, steps, delta, grid) if rdp <= HOPELESS else math.inf
    if min(rdp, pld) < FINE_BELOW:
        grid = FINE_GRID
        pld = by_pld(rate, sigma, steps, delta, grid)
    epsilon = min(rdp, pld)
    if not math.isfinite(epsilon):
        raise BadInput(
            f"No finite bound for noise of {sigma:g} times the clip in {steps:,} lots of a share of {rate:g}: use more "
            "noise, fewer steps or smaller lots."
        )
    accountant = f"dp-accounting {version('dp-accounting')}"
    return Claim(epsilon, delta, rate, sigma, steps, rdp, pld, grid, accountant)


@functools.lru_cache(maxsize=64)
def noise_for(epsilon: float, *, rate: float, steps: int, delta: float) -> Claim:
    """The least noise whose claim is at most ``epsilon``, to a thousandth. Raises ``BadInput``."""
    _check(rate, steps, delta)
    if not 0 < epsilon <= MOST_EPSILON:
        raise BadInput(f"Expected an epsilon above 0 and up to {MOST_EPSILON:g}; got {epsilon}.")

    def over(log_sigma: float) -> float:
        return math.log(_bound(rate, math.exp(log_sigma), steps, delta) / epsilon)

    low = high = 0.0
    while over(high) > 0:
        high += 1
    while over(low) <= 0 and low > math.log(LEAST_NOISE):
        low -= 0.5
    sigma = math.exp(optimize.brentq(over, low, high, xtol=CLOSE) if over(low) > 0 else low)
    while (found := claim(rate=rate, sigma=sigma, steps=steps, delta=delta)).epsilon > epsilon:
        sigma *= 1 + CLOSE
    return found


def _bound(rate: float, sigma: float, steps: int, delta: float) -> float:
    """A bound that is quick to compute, for the search; no claim."""
    rough = 10 * (GRID if (rdp := by_rdp(rate, sigma, steps, delta)) > FINE_BELOW else FINE_GRID)
    found = min(rdp, by_pld(rate, sigma, steps, delta, rough))
    return max(found, 1e-9) if math.isfinite(found) else 1e9


def _check(rate: float, steps: int, delta: float) -> None:
    if not 0 < rate <= 1:
        raise BadInput(f"Expected lots of a share above 0 and up to 1 of all units; got {rate}.")
    if steps < 1:
        raise BadInput(f"Expected at least one step; got {steps}.")
    if not 0 < delta < 1:
        raise BadInput(f"Expected a delta between 0 and 1; got {delta}.")


def by_rdp(rate: float, sigma: float, steps: int, delta: float) -> float:
    """The bound by Rényi divergences."""
    from dp_accounting import rdp

    accountant = rdp.RdpAccountant(neighboring_relation=_one_more())
    with _quiet():
        return float(accountant.compose(_event(rate, sigma, steps)).get_epsilon(delta))


def by_pld(rate: float, sigma: float, steps: int, delta: float, grid: float) -> float:
    """The bound by privacy losses that are rounded up to a multiple of ``grid``."""
    from dp_accounting import pld

    accountant = pld.PLDAccountant(neighboring_relation=_one_more(), value_discretization_interval=grid)
    return float(accountant.compose(_event(rate, sigma, steps)).get_epsilon(delta))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without a line for each order that does not converge: it is left out of the bound, which stays one."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _one_more() -> Any:
    from dp_accounting import NeighboringRelation

    return NeighboringRelation.ADD_OR_REMOVE_ONE


def _event(rate: float, sigma: float, steps: int) -> Any:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

    return SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(sigma)), steps)
