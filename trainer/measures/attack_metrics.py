"""Metrics of an attack: accuracy, AUC within y, bits about z beyond y, and both chances.

An attack is a matrix of probabilities (n, classes of z), given x' and y. The adversary knows y, so what y alone tells
is not a leak: the AUC compares rows of equal y only, and bits start from what is known of z given y. Bits use
*calibrated* probabilities: an attack that is right 70 % of the time but always states 99.9 % has a worse cross-entropy
than no attack at all, and its leak would not show.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import optimize, special, stats

from edgeveil.trainer.measures.intervals import CONFIDENCE, Interval, mean

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
    counts = np.zeros(shape)
    np.add.at(counts, (y, z), 1.0)
    counts = counts + np.where(counts > 0, 0.5, 1e-3)
    return counts / counts.sum(axis=1, keepdims=True)


def auc_within_y(probabilities: np.ndarray, y: np.ndarray, z: np.ndarray) -> float:
    """Area under the ROC curve among rows of equal y; 0.5 is no leak. NaN where no y has two values of z.

    Per y the mean over its z of one-versus-rest (for two z both are the same number); over y weighted by rows.
    """
    areas, weights = [], []
    for value in np.unique(y):
        rows = y == value
        present = np.unique(z[rows])
        if len(present) < 2:
            continue
        areas.append(np.mean([_auc(probabilities[rows, k], z[rows] == k) for k in present]))
        weights.append(rows.sum())
    return float(np.average(areas, weights=weights)) if areas else float("nan")


def area_within_y(
    score: np.ndarray, y: np.ndarray, positive: np.ndarray, cluster: np.ndarray | None = None
) -> Interval:
    """The same of one question (``positive``, (n,) bool) answered by ``score`` (n,), with its 95 % interval.

    By the placements of DeLong et al. (1988), summed over clusters as Obuchowski (1997) does. NaN and [0, 1] where no y
    has both answers.
    """
    influence = np.zeros(len(score))
    areas, weights = [], []
    for value in np.unique(y):
        rows = np.flatnonzero(y == value)
        yes, no = rows[positive[rows]], rows[~positive[rows]]
        if not len(yes) or not len(no):
            continue
        ranks = np.empty(len(score))
        ranks[rows] = stats.rankdata(score[rows])
        above = (ranks[yes] - stats.rankdata(score[yes])) / len(no)
        below = 1 - (ranks[no] - stats.rankdata(score[no])) / len(yes)
        areas.append(float(above.mean()))
        weights.append(len(rows))
        influence[yes] = len(rows) * (above - areas[-1]) / len(yes)
        influence[no] = len(rows) * (below - areas[-1]) / len(no)
    if not areas:
        return Interval(float("nan"), 0.0, 1.0)
    estimate = float(np.average(areas, weights=weights))
    unit = np.arange(len(score)) if cluster is None else np.unique(cluster, return_inverse=True)[1].reshape(-1)
    totals = np.bincount(unit, influence) / np.sum(weights)
    if len(totals) < 2:
        return Interval(estimate, 0.0, 1.0)
    error = float(np.sqrt(len(totals) / (len(totals) - 1) * (totals**2).sum()))
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(totals) - 1)) * error
    return Interval(estimate, max(0.0, estimate - half), min(1.0, estimate + half))


def gains(prior: np.ndarray, probabilities: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Bits (n, classes of z) that the attack would gain over ``prior`` on each row, were z of each class."""
    return np.log2(np.maximum(probabilities, FLOOR)) - np.log2(np.maximum(prior[y], FLOOR))


def bits_beyond(
    prior: np.ndarray, probabilities: np.ndarray, y: np.ndarray, z: np.ndarray, cluster: np.ndarray | None = None
) -> Interval:
    """Bits about z that the attack knows beyond ``prior`` (classes of y, classes of z), per row, with its interval.

    Cross-entropy of the prior minus that of the attack, base 2 (a lower bound of I(x'; z | y) where prior is true).
    """
    return mean(gains(prior, probabilities, y)[np.arange(len(z)), z], cluster)


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
        q = special.softmax(logits, axis=1)
        value = np.mean(special.logsumexp(logits, axis=1) - logits[rows, z])
        slope = [np.mean((q * part).sum(axis=1) - part[rows, z]) for part in (log_p, log_base)]
        return float(value), np.array(slope)

    found = optimize.minimize(loss, np.array([0.5, 0.5]), jac=True, bounds=[(0, 20), (0, 20)], method="L-BFGS-B")
    return Calibration(float(found.x[0]), float(found.x[1]))


def _auc(score: np.ndarray, positive: np.ndarray) -> float:
    """Mann-Whitney: the chance that a positive row scores above a negative one, ties counting one half."""
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    rank_sum = stats.rankdata(score)[positive].sum()
    return float((rank_sum - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))
