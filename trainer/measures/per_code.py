"""The bound for every code: by how much can the worst single output raise the chance of any z?

An average hides a code that few samples get and that tells nearly all about them. So every code is bounded, all at
once: with 95 % confidence no code c' raises any P(z | y) by more than the factor F,

    F = max over y, c', z of  U(z | y, c') / L(z | y),    z that were counted with y,

U and L being simultaneous confidence ends (Clopper and Pearson 1934, shared out by Bonferroni). log2 F is the pointwise
maximal leakage of the worst code about z (Saeidian et al. 2023), given y. The multiplicative Bayes capacity of z -> c'
(its logarithm is the min-capacity; Alvim et al. 2012) comes from the same counts, with the same confidence.

Clopper-Pearson asks for independent rows. Where several rows belong to one subject or point, one row of each is drawn;
the p-values of many such draws are averaged, and twice their mean is a p-value again (Vovk and Wang 2020).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import stats

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.measures.intervals import count, unit_numbers

DRAWS = 32
STEPS = 40  # of the bisection: the ends are exact to 1e-12


@dataclass(frozen=True)
class PerCode:
    """``factor`` is F, for one release, with ``confidence``; ``estimate`` is the same ratio as counted.

    ``worst`` is the (y, code, z) that F is of. ``factors`` (classes of y, codes) are the bounds of each pair of y and
    code. They are NaN, and no bound is claimed, where a pair is ``unseen`` or ``rare``: seen with fewer units than were
    asked for. ``share`` is the share of units whose pair is bounded, ``pairs`` the number of these. ``capacity`` is the
    counted multiplicative Bayes capacity of z -> c' within the worst y, ``capacity_high`` its upper end. ``units``
    independent units were counted; ``fewest`` are those of the rarest bounded pair, ``at_worst`` those of the worst.
    ``prior``, ``rise`` and ``fall`` (classes of y, classes of z) are the lower end of P(z | y), F over all codes, and
    the least factor that any code leaves to the other values of z.
    """

    factor: float
    estimate: float
    worst: tuple[int, int, int]
    factors: np.ndarray
    unseen: int
    rare: int
    pairs: int
    share: float
    capacity: float
    capacity_high: float
    units: int
    fewest: int
    at_worst: float
    confidence: float
    rise: np.ndarray
    fall: np.ndarray
    prior: np.ndarray

    def linked(self, releases: int) -> float:
        """The factor of ``releases`` linked codes of one unit, if these are independent given (y, z).

        Each release raises the odds of z by at most ``rise`` over ``fall``, the ends of P(z | y, c') / P(z | y) over
        all codes. Releases of one person are seldom independent given z, so compare the attack on linked codes.
        """
        if releases == 1:
            return self.factor
        ratio = (self.fall / self.rise) ** releases
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.nanmax(1 / (self.prior + (1 - self.prior) * ratio)))

    @property
    def certainty(self) -> float:
        """The factor of a code that tells the z of ``worst`` for sure."""
        with np.errstate(divide="ignore"):
            return float(1 / self.prior[self.worst[0], self.worst[2]])


def per_code(
    y: np.ndarray,
    code: np.ndarray,
    z: np.ndarray,
    *,
    shape: tuple[int, int, int],
    rng: np.random.Generator,
    cluster: np.ndarray | None = None,
    confidence: float = 0.95,
    tried: float = 1,
    fewest: int = 1,
) -> PerCode:
    """Bound every code of held-out rows y, z, code (n,): nothing of the codebook was fitted or chosen on them.

    ``code`` is c' as it leaves, ``y`` what the attacker knows of each row. ``shape`` is (classes of y, codes, classes
    of z), ``cluster`` (n,) the independent units. ``tried`` configurations share the confidence. Pairs of y and code
    with fewer units than ``fewest`` get no bound: that depends on no z, so it favours none. Raises ``BadInput`` where
    no pair has as many.
    """
    counts = drawn_counts(y, code, z, shape=shape, cluster=cluster, rng=rng)
    of_code, of_y = counts.sum(axis=3, keepdims=True), counts.sum(axis=(2, 3))[:, :, None]
    of_z, seen = counts.sum(axis=2), of_code[..., 0].sum(axis=0) > 0
    units = of_code[..., 0].mean(axis=0)
    often = seen & (units >= fewest)
    if not often.any():
        raise BadInput(f"No code was counted for {fewest} units, so none is bounded. Give more test rows.")
    # A fifth of the error to each kind of end: both of P(z | y, c'), both of P(z | y), and P(c' | y, z).
    error = (1 - confidence) / tried / 5
    each, each_prior = error / counts[0].size, error / of_z[0].size
    prior, given = ends(of_z, of_y, each_prior), ends(counts, of_code, each)
    channel = upper_end(counts, of_z[:, :, None, :], error=each)
    # A z that was never counted with y has no P(z | y) to be raised.
    bounded = often[:, :, None] & (of_z.sum(axis=0) > 0)[:, None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = np.where(bounded, np.minimum(given[1], 1) / prior[0][:, None, :], np.nan)
    known = bounded.any(axis=1)
    rise = np.where(known, np.where(bounded, factors, 0).max(axis=1), np.nan)
    fall = np.where(bounded, given[0] / prior[1][:, None, :], np.inf).min(axis=1)
    worst = np.unravel_index(int(np.nanargmax(factors)), factors.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        counted = (counts / of_z[:, :, None, :]).mean(axis=0)
        raised = (counts / of_code).mean(axis=0) / (of_z / of_y).mean(axis=0)[:, None, :]
    return PerCode(
        factor=float(factors[worst]),
        estimate=float(np.nanmax(np.where(bounded, raised, np.nan))),
        worst=(int(worst[0]), int(worst[1]), int(worst[2])),
        factors=np.where(often, np.where(bounded, factors, 0).max(axis=2), np.nan),
        unseen=int((~seen).sum()),
        rare=int((seen & ~often).sum()),
        pairs=int(often.sum()),
        share=float(units[often].sum() / units.sum()),
        capacity=float(np.nan_to_num(counted).max(axis=2).sum(axis=1).max()),
        capacity_high=float(min(channel.max(axis=2).sum(axis=1).max(), shape[1], shape[2])),
        units=int(counts[0].sum()),
        fewest=round(units[often].min()),
        at_worst=float(units[worst[:2]]),
        confidence=confidence,
        prior=prior[0],
        rise=rise,
        fall=np.stack([np.delete(fall, k, axis=1).min(axis=1) for k in range(shape[2])], axis=1),
    )


def drawn_counts(
    y: np.ndarray,
    code: np.ndarray,
    z: np.ndarray,
    *,
    shape: tuple[int, int, int],
    rng: np.random.Generator,
    cluster: np.ndarray | None,
) -> np.ndarray:
    """n(y, c', z) of one row of each unit, drawn ``DRAWS`` times: (draws, *shape); of all rows, once, without units."""
    draws = drawn_rows(unit_numbers(len(y), cluster), rng)
    return np.stack([count(y[rows], code[rows], z[rows], shape=shape) for rows in draws])


def drawn_rows(unit: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """The places of one row of each ``unit`` (n,), numbered from 0, ``DRAWS`` times; once where each has one row."""
    for _ in range(1 if len(unit) == int(unit.max()) + 1 else DRAWS):
        order = rng.permutation(len(unit))
        yield order[np.unique(unit[order], return_index=True)[1]]


def upper_end(hits: np.ndarray, trials: np.ndarray, *, error: float) -> np.ndarray:
    """The largest rate that ``hits`` of ``trials`` do not refute at ``error``; both (draws, ...), the result (...)."""
    hits, trials = np.broadcast_arrays(hits, trials)
    # Most pairs of y and code have the same few counts, none above all: each is bounded once.
    both = np.concatenate([hits.reshape(len(hits), -1), trials.reshape(len(trials), -1)])
    columns, place = np.unique(both, axis=1, return_inverse=True)
    one_hits, one_trials = np.split(columns, 2)
    low, high = np.zeros(columns.shape[1]), np.ones(columns.shape[1])
    for _ in range(STEPS):
        middle = (low + high) / 2
        not_refuted = _p_value(stats.binom.cdf(one_hits, one_trials, middle)) >= error
        low, high = np.where(not_refuted, middle, low), np.where(not_refuted, high, middle)
    return high[place.reshape(-1)].reshape(hits.shape[1:])


def ends(hits: np.ndarray, trials: np.ndarray, error: float) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest rate that ``hits`` of ``trials`` do not refute at ``error`` each."""
    hits, trials = np.broadcast_arrays(hits, trials)
    return 1 - upper_end(trials - hits, trials, error=error), upper_end(hits, trials, error=error)


def _p_value(tails: np.ndarray) -> np.ndarray:
    return tails[0] if len(tails) == 1 else 2 * tails.mean(axis=0)


# Moments of images: ink, slant and stroke width.

MOMENTS = ("ink", "slant", "stroke")


def moments(u: np.ndarray) -> np.ndarray:
    """Ink, slant and stroke width of images u (n, height, width, channels) in [0, 1]: float64 (n, 3).

    Ink is the mean value. Slant is the shear mu_11 / mu_02 of the image's second moments: columns moved per row. Stroke
    is twice the ink over the length of its outline (the sum of absolute steps between neighbours), in pixels.
    """
    image = u.mean(axis=3).astype(np.float64)
    height, width = image.shape[1:]
    ink = image.mean(axis=(1, 2))
    mass = np.maximum(image.sum(axis=(1, 2)), 1e-9)
    down, right = np.arange(height, dtype=np.float64), np.arange(width, dtype=np.float64)
    row, column = image.sum(axis=2) @ down / mass, image.sum(axis=1) @ right / mass
    dy, dx = down[None, :] - row[:, None], right[None, :] - column[:, None]
    shear = np.einsum("nhw,nh,nw->n", image, dy, dx) / np.maximum(np.einsum("nhw,nh->n", image, dy**2), 1e-9)
    outline = np.abs(np.diff(image, axis=1)).sum(axis=(1, 2)) + np.abs(np.diff(image, axis=2)).sum(axis=(1, 2))
    return np.stack([ink, shear, 2 * image.sum(axis=(1, 2)) / np.maximum(outline, 1e-9)], axis=1)
