"""Codes of what z does not explain: for little data and many z, where a learned head would learn its own rows.

The trunk predicts T^ and P(z | x, y). What is coded is the *residual* r = E_z[(T^ - m_yz) / s_yz | x], T relative to
what is usual for its z. With the true z in place of P(z | x, y), mean and variance of r are the same for every z, so
codes of r carry little information about z to begin with. The price of funnel.py, in expectation, takes off the rest:

    c = argmin_c |r - mu_yc|^2 + lambda E_z[W_yzc | x],   W_yzc = log P(c | z, y) - log P(c | y)

with counts that shrink towards P(c | y). Only means, scales, centres and prices are fitted, some 20 numbers for each z.
A row's own z moves them by its share of a count and no more; a head of thousands of weights can follow every row.

|r|^2 is the same for every c, so the score of a code is linear in the products P(z | x, y) T^_j and in P(z | x, y)
itself. It is exported unchanged, as a softmax, three matrix products and one elementwise product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgeveil.trainer.measures.certificate import information
from edgeveil.trainer.perturbers.codebook.group_means import group_means, group_sums

ROUNDS = 150  # of counting and pricing
STEP = 0.1  # share of the new price in each: prices that jump to their target swing for ever


@dataclass(frozen=True)
class Usual:
    """What is usual of T for each *cell*, a pair (y, z) that occurs: ``mean`` and ``scale`` (cells, d).

    ``of_y`` and ``of_z`` (cells,) say which pair it is. The scale is relative: 1 where T varies as it does on average.
    """

    mean: np.ndarray
    scale: np.ndarray
    of_y: np.ndarray
    of_z: np.ndarray


@dataclass(frozen=True)
class Scores:
    """Score of a code = sum_cells P(cell) (slope (cells, d, codes) . T^ + offset (cells, codes)); codes of all y.

    A cell has scores for the codes of its own y alone, so P(cell) need not be divided by P(y).
    """

    slope: np.ndarray
    offset: np.ndarray

    def __call__(self, kept: np.ndarray, posterior: np.ndarray) -> np.ndarray:
        """Logits (n, codes of all y) for T^ (n, d) and P(cell) (n, cells)."""
        slopes = np.einsum("nz,zdc->ndc", posterior, self.slope)
        return np.einsum("nd,ndc->nc", kept, slopes) + posterior @ self.offset


def usual(kept: np.ndarray, y: np.ndarray, z: np.ndarray, *, shrinkage: float) -> Usual:
    """Mean and relative scale of T (n, d) in each cell, shrunk by ``shrinkage`` rows towards those of all of its y."""
    cells, cell = np.unique(np.stack([y, z], axis=1), axis=0, return_inverse=True)
    cell, (of_y, of_z) = cell.reshape(-1), cells.T
    n = np.bincount(cell)[:, None]
    whole = group_means(kept, y, int(y.max()) + 1)[of_y]
    mean = (group_sums(kept, cell, len(cells)) + shrinkage * whole) / (n + shrinkage)
    square = (kept - mean[cell]) ** 2
    overall = np.maximum(square.mean(axis=0), 1e-12)
    scale = np.sqrt((group_sums(square, cell, len(cells)) + 2 * shrinkage * overall) / (n + 2 * shrinkage) / overall)
    return Usual(mean, scale, of_y, of_z)


def learn(
    kept: np.ndarray,
    posterior: np.ndarray,
    y: np.ndarray,
    z: np.ndarray,
    normal: Usual,
    *,
    codes: int,
    classes: int,
    price: float,
    shrinkage: float,
    rng: np.random.Generator,
) -> Scores:
    """Centres by k-means on residuals, then prices by counting, class by class of the ``classes`` of y.

    ``kept`` (n, d) is T^ and ``posterior`` (n, cells) P(cell), both predicted by the trunk, best on rows that it was
    not trained on. ``price`` is lambda, in squared distance of T for one nat.
    """
    cells, d = normal.mean.shape
    slope, offset = np.zeros((cells, d, classes * codes)), np.zeros((cells, classes * codes))
    for value in np.unique(y):
        rows, mine = np.flatnonzero(y == value), np.flatnonzero(normal.of_y == value)
        place = np.searchsorted(normal.of_z[mine], z[rows])
        p = posterior[rows][:, mine]
        p = p / np.maximum(p.sum(axis=1, keepdims=True), 1e-9)
        mean, scale = normal.mean[mine], normal.scale[mine]
        residual = kept[rows] * (p @ (1 / scale)) - p @ (mean / scale)
        centres = _centres(residual, codes, rng)
        near = 2 * residual @ centres.T - (centres**2).sum(axis=1)
        # Rows of a z that never occurs in this class are priced as if z were not known.
        known = (place < len(mine)) & (normal.of_z[mine][np.minimum(place, len(mine) - 1)] == z[rows])
        w = _prices(near[known], p[known], place[known], price=price, shrinkage=shrinkage)
        of = slice(value * codes, (value + 1) * codes)
        slope[mine, :, of] = 2 * centres.T[None] / scale[:, :, None]
        offset[mine, of] = -2 * (mean / scale) @ centres.T - (centres**2).sum(axis=1) - price * w
    return Scores(slope, offset)


def _prices(near: np.ndarray, p: np.ndarray, z: np.ndarray, *, price: float, shrinkage: float) -> np.ndarray:
    """W (Z, K) for scores ``near`` (n, K), P(z|x) ``p`` (n, Z) and z (n,): the best round by near - lambda I(c; z)."""
    (n, k), n_z = near.shape, p.shape[1]
    w = best = np.zeros((n_z, k))
    best_value = -np.inf
    for _ in range(ROUNDS):
        code = (near - price * (p @ w)).argmax(axis=1)
        counts = np.zeros((n_z, k))
        np.add.at(counts, (z, code), 1.0)
        share = (counts.sum(axis=0) + 1) / (n + k)
        given = (counts + shrinkage * share) / (counts.sum(axis=1, keepdims=True) + shrinkage)
        # Valued by the same shrunk counts: plain ones would count noise as a leak.
        joint = given * counts.sum(axis=1, keepdims=True)
        value = near[np.arange(n), code].mean() - price * np.log(2) * information(joint.T[None])
        if value > best_value:
            best, best_value = w, value
        w = (1 - STEP) * w + STEP * (np.log(given) - np.log(share))
    return best


def _centres(residual: np.ndarray, codes: int, rng: np.random.Generator) -> np.ndarray:
    from sklearn.cluster import KMeans

    k = min(codes, len(np.unique(residual, axis=0)))
    found = KMeans(k, n_init=3, random_state=int(rng.integers(2**31))).fit(residual).cluster_centers_
    # Fewer rows than codes: put the other centres where no row is near.
    return np.concatenate([found, np.full((codes - k, residual.shape[1]), 1e3)])
