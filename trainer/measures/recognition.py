"""Is one class surely recognised more than r times as often as others are taken for it, where others are few?

The threshold is read from the others' scores: the highest that leaves ``allowed`` of them above it. How many of *all*
others lie above it is then not known, and with a hundred of them it may well be three times the share that was meant.
So both sides are counted. Of n others the share F above the threshold has the law Beta(allowed + 1, n - allowed),
whatever the scores (an order statistic; where scores tie, F is smaller). If no threshold told the class apart by more
than the factor r, at most Binomial(m, min(1, r F)) of its m rows lie above. So the chance of that many hits is exact,
and a sum over the strata (each y has its own threshold) stays exact.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special, stats

NODES = 96  # of the quadrature over F
_NEGLIGIBLE = 1e-10


class Stratum(NamedTuple):
    """Rows of the class, others, and how many others the threshold leaves above it."""

    positives: int
    negatives: int
    allowed: int


def p_value(hits: int, strata: tuple[Stratum, ...], ratio: float) -> float:
    """The largest chance of at least ``hits`` rows above their thresholds, were none ``ratio`` times as likely there.

    1 where there is no row of the class.
    """
    tail = _tail(strata, ratio)
    return float(tail[min(hits, len(tail) - 1)])


@lru_cache(maxsize=4096)
def _tail(strata: tuple[Stratum, ...], ratio: float) -> np.ndarray:
    """P(at least h hits) for h = 0, 1, ... up to where it is negligible."""
    law = np.ones(1)
    for one in strata:
        law = np.convolve(law, _hits(one, ratio))
    return np.minimum(1.0, np.append(1.0, 1.0 - np.cumsum(law)[:-1]).clip(_NEGLIGIBLE))


@lru_cache(maxsize=4096)
def _hits(one: Stratum, ratio: float) -> np.ndarray:
    """The law of the hits in one stratum; what is left out at its upper end adds up to less than ``_NEGLIGIBLE``."""
    share = stats.beta(one.allowed + 1, one.negatives - one.allowed)
    ends = share.ppf([_NEGLIGIBLE, 1 - _NEGLIGIBLE])
    place, weight = np.polynomial.legendre.leggauss(NODES)
    at = ends[0] + (place + 1) / 2 * (ends[1] - ends[0])
    weight = weight * share.pdf(at)
    rate = np.minimum(1.0, ratio * at)
    count = np.arange(int(stats.binom.ppf(1 - _NEGLIGIBLE, one.positives, rate.max())) + 1)
    ways = -special.betaln(count + 1, one.positives - count + 1) - np.log(one.positives + 1)
    rest = one.positives - count
    return (weight / weight.sum()) @ np.exp(
        ways + special.xlogy(count, rate[:, None]) + special.xlog1py(rest, -rate[:, None])
    )
