"""Metrics of an attack: accuracy, AUC within y, bits about z beyond y, and both chances.

An attack is a matrix of probabilities (n, classes of z), given x' and y. The adversary knows y, so what y alone tells
is not a leak: the AUC compares rows of equal y only, and bits start from what is known of z given y. Bits use
*calibrated* probabilities: an attack that is right 70 % of the time but always states 99.9 % has a worse cross-entropy
than no attack at all, and its leak would not show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy import optimize, special, stats

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.measures.certificate import shuffled_counts, shuffled_labels
from edgeveil.trainer.measures.intervals import Interval, clipped, count, mean, student, unit_numbers

FLOOR = 1e-6  # the smallest probability an attack may state; bounds the loss of one row at 20 bits


class Chance(NamedTuple):
    """Accuracies reached from y alone: ``prior`` guesses from theta_y, ``majority`` from z given y in training rows."""

    prior: float
    majority: float


def accuracy(probabilities: np.ndarray, z: np.ndarray) -> float:
    """How often the best guess from ``probabilities`` (n, classes of z) is ``z`` (n,)."""
    return float((probabilities.argmax(axis=1) == z).mean())


def chance(theta: np.ndarray, counted: np.ndarray, y: np.ndarray, z: np.ndarray) -> Chance:
    """Both chances on rows (y, z) for two tables (classes of y, classes of z).

    A tie in a row of theta is broken at random, so it counts by its expectation.
    """
    best = theta >= theta.max(axis=1, keepdims=True) - 1e-9
    prior = (best / best.sum(axis=1, keepdims=True))[y, z]
    return Chance(float(prior.mean()), accuracy(counted[y], z))


def counted_prior(y: np.ndarray, z: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """P(z|y) counted on rows, shape (classes of y, classes of z), half a row added to each cell that could occur.

    A z never seen with any row of that y keeps a tiny share, so that its logarithm exists.
    """
    counts = count(y, z, shape=shape)
    counts = counts + np.where(counts > 0, 0.5, 1e-3)
    return counts / counts.sum(axis=1, keepdims=True)


def auc_within_y(probabilities: np.ndarray, y: np.ndarray, z: np.ndarray) -> float:
    """Area under the ROC curve among rows of equal y; 0.5 is no leak. NaN where no y has two values of z.

    Per y the mean over its z of one-versus-rest (for two z both are the same number); over y weighted by rows.
    """
    groups = list(several(y, z))
    areas = [np.mean([_auc(probabilities[rows, k], z[rows] == k) for k in present]) for rows, present in groups]
    return float(np.average(areas, weights=[len(rows) for rows, _ in groups])) if areas else float("nan")


def several(y: np.ndarray, z: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of each y that has several values of z the places of its rows (m,), and these values."""
    for value in np.unique(y):
        rows = np.flatnonzero(y == value)
        present = np.unique(z[rows])
        if len(present) > 1:
            yield rows, present


def area_within_y(
    score: np.ndarray, y: np.ndarray, positive: np.ndarray, cluster: np.ndarray | None = None
) -> Interval:
    """``auc_within_y`` of one question (``positive``, (n,) bool) answered by ``score`` (n,), with its 95 % interval."""
    return auc_interval(np.stack([-score, score], axis=1), y, positive.astype(np.int64), cluster)


def auc_interval(
    probabilities: np.ndarray, y: np.ndarray, z: np.ndarray, cluster: np.ndarray | None = None
) -> Interval:
    """``auc_within_y`` with its 95 % interval.

    By the placements of DeLong et al. (1988), summed over clusters as Obuchowski (1997) does. NaN and [0, 1] where no y
    has two values of z.
    """
    influence = np.zeros(len(y))
    areas, weights = [], []
    for rows, present in several(y, z):
        classes = present if probabilities.shape[1] > 2 else present[1:]  # of two classes both are the same number
        of_classes = []
        for k in classes:
            score, positive = probabilities[rows, k], z[rows] == k
            yes, no = rows[positive], rows[~positive]
            ranks = stats.rankdata(score)
            above = (ranks[positive] - stats.rankdata(score[positive])) / len(no)
            below = 1 - (ranks[~positive] - stats.rankdata(score[~positive])) / len(yes)
            of_classes.append(float(above.mean()))
            influence[yes] += len(rows) / len(classes) * (above - of_classes[-1]) / len(yes)
            influence[no] += len(rows) / len(classes) * (below - of_classes[-1]) / len(no)
        areas.append(float(np.mean(of_classes)))
        weights.append(len(rows))
    if not areas:
        return Interval(float("nan"), 0.0, 1.0)
    estimate = float(np.average(areas, weights=weights))
    totals = np.bincount(unit_numbers(len(y), cluster), influence) / np.sum(weights)
    if len(totals) < 2:
        return Interval(estimate, 0.0, 1.0)
    error = float(np.sqrt(len(totals) / (len(totals) - 1) * (totals**2).sum()))
    return clipped(estimate, student(len(totals)) * error)


def attack_gains(prior: np.ndarray, probabilities: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Bits (n, classes of z) that the attack would gain over ``prior`` on each row, were z of each class."""
    return np.log2(np.maximum(probabilities, FLOOR)) - np.log2(np.maximum(prior[y], FLOOR))


def bits_beyond(
    prior: np.ndarray, probabilities: np.ndarray, y: np.ndarray, z: np.ndarray, cluster: np.ndarray | None = None
) -> Interval:
    """Bits about z that the attack knows beyond ``prior`` (classes of y, classes of z), per row, with its interval.

    Cross-entropy of the prior minus that of the attack, base 2 (a lower bound of I(x'; z | y) where prior is true).
    """
    return mean(attack_gains(prior, probabilities, y)[np.arange(len(z)), z], cluster)


class Calibration(NamedTuple):
    """Trust in an attack's own log-odds (a >= 0) against trust in the counted P(z|y) (b >= 0).

    The calibrated attack is softmax(a log p + b log P(z|y)). a = 1/temperature; a = 0, b = 1 knows nothing but y, so an
    overconfident attack falls back to no leak, never to less than none. Negative a is not allowed: it would turn the
    fixed adversary's error into an attack, which is what adaptive ones are for.
    """

    a: float
    b: float

    def apply(self, probabilities: np.ndarray, base: np.ndarray) -> np.ndarray:
        """Calibrated probabilities (n, classes of z); ``base`` is P(z|y) of each row, same shape."""
        logits = self.a * np.log(np.maximum(probabilities, FLOOR)) + self.b * np.log(np.maximum(base, FLOOR))
        return np.maximum(special.softmax(logits, axis=1), FLOOR)


def calibrate(probabilities: np.ndarray, base: np.ndarray, z: np.ndarray) -> Calibration:
    """The two trusts with the smallest cross-entropy on validation rows (two parameters, convex, so few rows do)."""
    log_p, log_base = np.log(np.maximum(probabilities, FLOOR)), np.log(np.maximum(base, FLOOR))
    rows = np.arange(len(z))

    def loss(trust: np.ndarray) -> tuple[float, np.ndarray]:
        logits = trust[0] * log_p + trust[1] * log_base
        q = np.exp(logits - logits.max(axis=1, keepdims=True))  # as scipy's softmax does, which takes longer
        q /= q.sum(axis=1, keepdims=True)
        value = np.mean(special.logsumexp(logits, axis=1) - logits[rows, z])
        slope = [np.mean((q * part).sum(axis=1) - part[rows, z]) for part in (log_p, log_base)]
        return float(value), np.array(slope)

    optimum = optimize.minimize(loss, np.array([0.5, 0.5]), jac=True, bounds=[(0, 20), (0, 20)], method="L-BFGS-B")
    return Calibration(float(optimum.x[0]), float(optimum.x[1]))


def _auc(score: np.ndarray, positive: np.ndarray) -> float:
    """Mann-Whitney: the chance that a positive row scores above a negative one, ties counting one half."""
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    rank_sum = stats.rankdata(score)[positive].sum()
    return float((rank_sum - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))


# A permutation test of an attack's gain: does it know more about z than y tells, or was it lucky?
#
# If x' tells nothing about z beyond y, rows of equal y could swap their z: the attack's gain is then as likely to be
# high with z swapped as with the true z. Both are measured on test rows and the attack's answers stay fixed, so the
# p-value is exact whatever the attack and however few the rows (Phipson & Smyth 2010). Choose the attack on other
# rows.
#
# Where rows are few, each *fold* of them is answered by an attack that learned from the others. With all answers fixed
# p would then be too small: two folds that agree by chance gain twice, once for each that learned from the other. (At
# 1 % it fired in 2 to 3 % of cases without a leak.) So each fold is tested by itself, the others as they are, and the
# smallest p-value counts as often as there are folds (Bonferroni).

SHUFFLES = 999
MOST_SHUFFLES, ENOUGH = 2499, 20  # of the sequential test; corrected for a dozen tests, p can still be 1 %
ROWS_OF_A_KIND, AT_ONCE = 4, 250  # rows with equal gains for which counts are drawn; shuffles drawn together
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
    gains = attack_gains(prior, probabilities, y)
    strata, swapped = _strata(y, z, cluster)
    null = _null(np.mean, gains, z, strata, swapped, cluster, shuffles, rng)
    overall = _judged(float(_gained(gains, z).mean()), list(null), swapped)
    if fold is None:
        return overall

    def of_fold(mine: np.ndarray) -> float:
        own = None if cluster is None else cluster[mine]
        return permutation_test(prior, probabilities[mine], y[mine], z[mine], own, shuffles=shuffles, rng=rng).p

    return overall._replace(p=_of_folds(fold, of_fold))


def permuted(
    gain_of: Callable[[np.ndarray], float],
    y: np.ndarray,
    z: np.ndarray,
    cluster: np.ndarray | None = None,
    *,
    shuffles: int = SHUFFLES,
    rng: np.random.Generator,
) -> Permuted:
    """The same test of any gain: ``gain_of`` gives bits per row, were the rows' z (n,) as given."""
    strata, swapped = _strata(y, z, cluster)
    labels = shuffled_labels(z, strata, shuffles=shuffles, rng=rng, cluster=cluster)
    return _judged(gain_of(z), list(map(gain_of, labels)), swapped)


def _judged(gain: float, null: Sequence[float], swapped: Swapped) -> Permuted:
    # Sums of the same numbers in another order differ in their last digits: those are ties.
    p = (1 + int((np.array(null) >= gain - 1e-12).sum())) / (1 + len(null))
    return Permuted(p, gain, float(np.quantile(null, 0.99)), len(null), swapped)


def _gained(gains: np.ndarray, z: np.ndarray) -> np.ndarray:
    return gains.take(np.arange(len(z)) * gains.shape[1] + z)


def _null(
    statistic: Callable[[np.ndarray], float],
    gains: np.ndarray,
    z: np.ndarray,
    strata: np.ndarray,
    swapped: Swapped,
    cluster: np.ndarray | None,
    shuffles: int,
    rng: np.random.Generator,
) -> Iterator[float]:
    """The statistic of each row's gain with z shuffled, ``shuffles`` times. For the mean of few different gains (those
    of codes) it is drawn how many rows of each have each z: the same law, and no row is touched."""
    kinds, kind = np.unique(np.column_stack([strata, gains]), axis=0, return_inverse=True)
    if statistic is not np.mean or swapped == "clusters" or kinds.size * ROWS_OF_A_KIND > gains.size:
        for labels in shuffled_labels(z, strata, shuffles=shuffles, rng=rng, cluster=cluster):
            yield float(statistic(_gained(gains, labels)))
        return
    for begun in range(0, shuffles, AT_ONCE):
        at_once = min(AT_ONCE, shuffles - begun)
        counts = shuffled_counts(kind.reshape(-1), z, kinds[:, 0], shuffles=at_once, classes=gains.shape[1], rng=rng)
        yield from np.tensordot(counts, kinds[:, 1:], 2) / len(z)


class Sequential(NamedTuple):
    """``p`` is None where rows of clusters swapped their z, ``null`` the mean of the statistic under the shuffle."""

    p: float | None
    null: float


def sequential_test(
    gains: np.ndarray,
    y: np.ndarray,
    z: np.ndarray,
    cluster: np.ndarray | None,
    statistic: Callable[[np.ndarray], float] = np.mean,
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
    strata, swapped = _strata(y, z, cluster)
    observed = float(statistic(_gained(gains, z)))
    null: list[float] = []
    above = 0
    for one in _null(statistic, gains, z, strata, swapped, cluster, most, rng):
        null.append(one)
        above += one >= observed - 1e-12
        if above == ENOUGH:
            break
    p = above / len(null) if above == ENOUGH else (1 + above) / (1 + len(null))
    tested = swapped != "rows of clusters"
    if tested and fold is not None:

        def of_fold(mine: np.ndarray) -> float:
            def alone(gain: np.ndarray) -> float:
                every = np.zeros(len(z))
                every[mine] = gain
                return statistic(every)

            own, longer = None if cluster is None else cluster[mine], most * len(np.unique(fold))
            how = statistic if statistic is np.mean else alone  # the same but for its scale
            of_rows = sequential_test(gains[mine], y[mine], z[mine], own, how, most=longer, rng=rng).p
            return 1.0 if of_rows is None else of_rows

        p = _of_folds(fold, of_fold)
    return Sequential(p if tested else None, float(np.mean(null)))


def _of_folds(fold: np.ndarray, p_of: Callable[[np.ndarray], float]) -> float:
    """The smallest p-value of the rows of one fold alone, as often as there are folds (Bonferroni)."""
    each = [p_of(np.flatnonzero(fold == one)) for one in np.unique(fold)]
    return min(1.0, len(each) * min(each))


def _strata(y: np.ndarray, z: np.ndarray, cluster: np.ndarray | None) -> tuple[np.ndarray, Swapped]:
    """Within what z is shuffled, (n,), and what swaps."""
    if cluster is None:
        return y, "rows"
    _, first, number = np.unique(cluster, return_index=True, return_inverse=True)
    number = number.reshape(-1)
    if (z[first][number] != z).any():
        return y, "rows of clusters"
    counts = count(number, y, shape=(len(first), int(y.max()) + 1))
    return counts.argmax(axis=1)[number], "clusters"
