"""A permutation test of an attack's gain: does it know more about z than y tells, or was it lucky?

If x' tells nothing about z beyond y, rows of equal y could swap their z: the attack's gain is then as likely to be high
with z swapped as with the true z. Both are measured on test rows and the attack's answers stay fixed, so the p-value is
exact whatever the attack and however few the rows (Phipson & Smyth 2010). Choose the attack on other rows.

Where rows are few, each *fold* of them is answered by an attack that learned from the others. With all answers fixed p
would then be too small: two folds that agree by chance gain twice, once for each that learned from the other. (At 1 %
it fired in 2 to 3 % of cases without a leak.) So each fold is tested by itself, the others as they are, and the
smallest p-value counts as often as there are folds (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.measures import attack_metrics
from edgeveil.trainer.measures.certificate import shuffled_labels

SHUFFLES = 999
MOST_SHUFFLES, ENOUGH = 2499, 20  # of the sequential test; corrected for a dozen tests, p can still be 1 %
Swapped = Literal["rows", "clusters", "rows of clusters"]


class Permuted(NamedTuple):
    """``p`` is (1 + shuffles with at least this gain) / (1 + ``shuffles``), ``gain`` in bits per row beyond P(z|y).

    ``null_high`` is the 99 % quantile of the gain under the shuffle, in bits. ``swapped`` says what traded its z:
    *rows*; whole *clusters*; or *rows of clusters*, where z varies within a cluster: rows of a cluster then count as
    independent, and the p-value is too small where they are not.
    """

    p: float
    gain: float
    null_high: float
    shuffles: int
    swapped: Swapped


def permutation_test(
    prior: np.ndarray,
    probabilities: np.ndarray,
    y: np.ndarray,
    z: np.ndarray,
    cluster: np.ndarray | None = None,
    *,
    fold: np.ndarray | None = None,
    shuffles: int = SHUFFLES,
    rng: np.random.Generator,
) -> Permuted:
    """The exact Monte Carlo p-value of the log-loss gain of ``probabilities`` (n, classes of z) on test rows.

    ``prior`` (classes of y, classes of z) is P(z|y); y, z (n,) the labels, ``cluster`` (n,) the independent units,
    ``fold`` (n,) which rows were answered by an attack that learned from all others. z is shuffled within y. Clusters
    that share one z but have several y swap among those with the same commonest y. Raises ``BadInput`` where there are
    no rows or no shuffles.
    """
    if not len(z) or shuffles < 1:
        raise BadInput(f"A permutation test needs rows and at least one shuffle; got {len(z)} rows, {shuffles}.")
    rows = np.arange(len(z))
    gains = attack_metrics.gains(prior, probabilities, y)
    found = permuted(lambda told: float(gains[rows, told].mean()), y, z, cluster, shuffles=shuffles, rng=rng)
    if fold is None:
        return found
    each = []
    for mine in _folds(fold):
        own = None if cluster is None else cluster[mine]
        each.append(permutation_test(prior, probabilities[mine], y[mine], z[mine], own, shuffles=shuffles, rng=rng).p)
    return found._replace(p=min(1.0, len(each) * min(each)))


def permuted(
    gain_of: Callable[[np.ndarray], float],
    y: np.ndarray,
    z: np.ndarray,
    cluster: np.ndarray | None = None,
    *,
    shuffles: int = SHUFFLES,
    rng: np.random.Generator,
) -> Permuted:
    """The same test of any gain: ``gain_of`` gives bits per row, were the rows' z (n,) as it is told."""
    strata, swapped = _strata(y, z, cluster)
    gain = gain_of(z)
    labels = shuffled_labels(z, strata, shuffles=shuffles, rng=rng, cluster=cluster)
    null = np.array([gain_of(shuffled) for shuffled in labels])
    # Sums of the same numbers in another order differ in their last digits: those are ties.
    p = (1 + int((null >= gain - 1e-12).sum())) / (1 + shuffles)
    return Permuted(p, gain, float(np.quantile(null, 0.99)), shuffles, swapped)


class Sequential(NamedTuple):
    """``p`` is None where rows of clusters swapped their z, ``null`` the mean of the statistic under the shuffle."""

    p: float | None
    null: float


def sequential_test(
    gains: np.ndarray,
    y: np.ndarray,
    z: np.ndarray,
    cluster: np.ndarray | None,
    statistic: Callable[[np.ndarray], float],
    *,
    fold: np.ndarray | None = None,
    most: int = MOST_SHUFFLES,
    rng: np.random.Generator,
) -> Sequential:
    """Whether ``statistic`` of each row's gain (n,) is more than it is with z shuffled within y.

    ``gains`` (n, classes of z) are bits that each row would gain with each z. Shuffling ends when ``ENOUGH`` shuffles
    have reached the statistic, which keeps the p-value exact (Besag & Clifford 1991) and costs little where nothing
    leaks; or after ``most`` of them. Of a ``fold`` (n,), as in ``permutation_test``, the other rows' gains count as 0.
    """
    rows = np.arange(len(z))
    strata, swapped = _strata(y, z, cluster)
    found = statistic(gains[rows, z])
    null: list[float] = []
    above = 0
    for shuffled in shuffled_labels(z, strata, shuffles=most, rng=rng, cluster=cluster):
        null.append(statistic(gains[rows, shuffled]))
        above += null[-1] >= found - 1e-12
        if above == ENOUGH:
            break
    p = above / len(null) if above == ENOUGH else (1 + above) / (1 + len(null))
    tested = swapped != "rows of clusters"
    if tested and fold is not None:
        each = []
        for mine in _folds(fold):
            of_fold = _statistic_of(statistic, mine, len(z))
            own = None if cluster is None else cluster[mine]
            most_of = most * len(np.unique(fold))
            of_rows = sequential_test(gains[mine], y[mine], z[mine], own, of_fold, most=most_of, rng=rng).p
            each.append(1.0 if of_rows is None else of_rows)
        p = min(1.0, len(each) * min(each))
    return Sequential(p if tested else None, float(np.mean(null)))


def _folds(fold: np.ndarray) -> list[np.ndarray]:
    return [np.flatnonzero(fold == one) for one in np.unique(fold)]


def _statistic_of(
    statistic: Callable[[np.ndarray], float], mine: np.ndarray, rows: int
) -> Callable[[np.ndarray], float]:
    """The same statistic from the gains of ``mine`` alone, of so many rows."""

    def of(gain: np.ndarray) -> float:
        every = np.zeros(rows)
        every[mine] = gain
        return statistic(every)

    return of


def _strata(y: np.ndarray, z: np.ndarray, cluster: np.ndarray | None) -> tuple[np.ndarray, Swapped]:
    """Within what z is shuffled, (n,), and what swaps."""
    if cluster is None:
        return y, "rows"
    _, first, number = np.unique(cluster, return_index=True, return_inverse=True)
    number = number.reshape(-1)
    if (z[first][number] != z).any():
        return y, "rows of clusters"
    counts = np.zeros((len(first), int(y.max()) + 1))
    np.add.at(counts, (number, y), 1)
    return counts.argmax(axis=1)[number], "clusters"
