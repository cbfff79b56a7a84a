"""The exposure of the rows and classes at most risk, which an average hides.

An attack that is at chance on average may still be sure about a few people (true positives at 1 % false ones, the
membership literature's measure: Carlini et al. 2022), or about one class of z. That class is chosen on the validation
rows and measured on the test rows, so no figure is the largest of many noisy ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from edgeveil.trainer.measures import recognition
from edgeveil.trainer.measures.intervals import CONFIDENCE, Interval, rate

FALSE_POSITIVES = 0.01
TIMES = 3.0  # a leak: recognised more than this many times as often as others are taken for it
FEWEST_NEGATIVES = 100  # within one y; with fewer, 1 % of them is less than one row
FEWEST_OF_CLASS = 10  # test rows of a class of z; with fewer, its recall is noise
DRAWS = 8  # of one row of each unit


class Judged(NamedTuple):
    """An attack's probabilities for some rows (n, classes of z), and their y, z (n,), cluster (n,) or None.

    ``fold`` (n,) is that of ``Problem``.
    """

    p: np.ndarray
    y: np.ndarray
    z: np.ndarray
    cluster: np.ndarray | None = None
    fold: np.ndarray | None = None


class Class(NamedTuple):
    """A rate of one class of z with its interval, and the number of its test rows; NaN and 0 where there are too few.

    ``chance`` is the same rate for an attacker who knows y alone, ``p`` the p-value of its being at most ``TIMES`` as
    much (NaN where that was not tested).
    """

    rate: Interval
    rows: int
    chance: float
    p: float = float("nan")


class Balanced(NamedTuple):
    """Balanced accuracy within y with its interval, and the same for an attacker who knows y alone."""

    rate: Interval
    chance: float


NOTHING = Interval(float("nan"), float("nan"), float("nan"))
_Z2 = float(stats.norm.ppf(0.5 + CONFIDENCE / 2)) ** 2


def at_low_fpr(choose: Judged, test: Judged) -> Class:
    """The share of rows of one z that are recognised while 1 % of the other rows of equal y are taken for it.

    Thresholds are each y's own; rows whose y has fewer than 100 rows of another z are left out. Knowing y alone
    gives 1 %. The interval takes the thresholds as they are. ``p`` does not: it counts that they are read from few
    rows, is of independent units, and is corrected for the classes that were looked at.
    """
    classes = range(test.p.shape[1])
    enough = [k for k in classes if len(_recognised(test, k).hits) >= FEWEST_OF_CLASS]
    if not enough:
        return Class(NOTHING, 0, FALSE_POSITIVES)
    # With few validation rows the threshold is above every false positive, which still ranks the classes.
    ranked = {k: _recognised(choose, k, fewest=2).hits for k in enough}
    worst = max(enough, key=lambda k: ranked[k].mean() if len(ranked[k]) else -1.0)
    hits, rows, _ = _recognised(test, worst)
    found = rate(hits, None if test.cluster is None else test.cluster[rows])
    return Class(found, len(hits), FALSE_POSITIVES, min(1.0, len(enough) * _surely(test, worst)))


def worst_class(choose: Judged, test: Judged, prior: np.ndarray) -> Class:
    """Recall of the class of z that the attack's best guess gains most on, over the best guess from y alone.

    ``prior`` (classes of y, classes of z) is the counted P(z|y) that the guess from y alone is made from.
    """
    enough = [k for k in range(test.p.shape[1]) if (test.z == k).sum() >= FEWEST_OF_CLASS]
    if not enough:
        return Class(NOTHING, 0, float("nan"))

    def recalls(part: Judged, k: int) -> tuple[np.ndarray, np.ndarray]:
        of = part.z == k
        return part.p[of].argmax(axis=1) == k, prior[part.y[of]].argmax(axis=1) == k

    def gain(k: int) -> float:
        found, guessed = recalls(choose, k)
        return float(found.mean() - guessed.mean()) if len(found) else -1.0

    worst = max(enough, key=gain)
    found, guessed = recalls(test, worst)
    cluster = None if test.cluster is None else test.cluster[test.z == worst]
    return Class(rate(found, cluster), len(found), float(guessed.mean()))


def balanced(test: Judged, prior: np.ndarray) -> Balanced:
    """Balanced accuracy within y, and its chance level: every z counts alike, however rare it is with that y.

    The guess is the z that gained most over ``prior`` (classes of y, classes of z). Per y the mean recall over its z,
    over y weighted by rows. NaN where no y has two values of z.

    The interval is Student's t over rows, or over clusters, by linearisation of the recalls. A recall of 0 or 1 shows
    no variance, so the variance is at least that of independent rows with recalls drawn to one half (Agresti and Coull
    1998).
    """
    guess = (np.log(test.p) - np.log(prior[test.y])).argmax(axis=1)
    share, hit = np.zeros(len(test.y)), np.zeros(len(test.y))
    recall_of = np.zeros(len(test.y))
    chance, least = 0.0, 0.0
    groups = [(test.y == y, np.unique(test.z[test.y == y])) for y in np.unique(test.y)]
    groups = [(rows, present) for rows, present in groups if len(present) > 1]
    counted = sum(int(rows.sum()) for rows, _ in groups)
    if not counted:
        return Balanced(NOTHING, float("nan"))
    for rows, present in groups:
        weight = rows.sum() / counted / len(present)
        chance += weight
        for k in present:
            own = rows & (test.z == k)
            hit[own] = guess[own] == k
            share[own], recall_of[own] = weight / own.sum(), hit[own].mean()
            drawn = (hit[own].sum() + _Z2 / 2) / (own.sum() + _Z2)
            least += weight**2 * drawn * (1 - drawn) / own.sum()
    estimate = float((share * hit).sum())
    unit = np.arange(len(hit)) if test.cluster is None else np.unique(test.cluster, return_inverse=True)[1].reshape(-1)
    totals = np.bincount(unit, weights=share * (hit - recall_of))
    if len(totals) < 2:
        return Balanced(Interval(estimate, 0.0, 1.0), float(chance))
    variance = max(least, len(totals) / (len(totals) - 1) * float((totals**2).sum()))
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(totals) - 1)) * float(np.sqrt(variance))
    return Balanced(Interval(estimate, max(0.0, estimate - half), min(1.0, estimate + half)), float(chance))


def _surely(test: Judged, k: int) -> float:
    """The p-value of class k being recognised at most ``TIMES`` as often as others are taken for it.

    Rows of one subject or session depend on each other: one of each is drawn, ``DRAWS`` times, and twice the mean
    p-value is one again (Vovk and Wang 2020).
    """
    if test.cluster is None:
        return _p_value(test, k, FEWEST_NEGATIVES)
    unit, size = np.unique(test.cluster, return_inverse=True, return_counts=True)[1:]
    order, first = np.argsort(unit.reshape(-1), kind="stable"), np.cumsum(size) - size
    rng = np.random.default_rng(0)  # the same draws for every attack
    found = []
    for _ in range(DRAWS):
        drawn = order[first + rng.integers(0, size)]
        found.append(_p_value(Judged(test.p[drawn], test.y[drawn], test.z[drawn]), k, fewest=1))
    return min(1.0, 2 * float(np.mean(found)))


def _p_value(rows: Judged, k: int, fewest: int) -> float:
    """The same for independent rows, of those y that have at least ``fewest`` rows of another class.

    At 1 % false positives, and where no other row lies above the threshold: a few who are recognised for sure stand out
    there most. The smaller p-value counts, twice.
    """
    every = (_recognised(rows, k, fewest, share) for share in (FALSE_POSITIVES, 0.0))
    found = {(int(one.hits.sum()), one.strata) for one in every}  # one, where 1 % is less than a row
    return min(1.0, len(found) * min(recognition.p_value(hits, strata, TIMES) for hits, strata in found))


class _Recognised(NamedTuple):
    """Whether each row of a class lies above its y's threshold, the numbers of those rows, and the counts of each y."""

    hits: np.ndarray
    rows: np.ndarray
    strata: tuple[recognition.Stratum, ...]


def _recognised(part: Judged, k: int, fewest: int = FEWEST_NEGATIVES, share: float = FALSE_POSITIVES) -> _Recognised:
    """The rows of class k whose y has at least ``fewest`` rows of another class, of which ``share`` lie above it."""
    hits, numbers, strata = [np.empty(0, bool)], [np.empty(0, np.int64)], []
    for y in np.unique(part.y[part.z == k]):
        own = np.flatnonzero((part.y == y) & (part.z == k))
        others = part.p[(part.y == y) & (part.z != k), k]
        if len(others) < fewest:
            continue
        allowed = int(share * len(others))
        threshold = np.sort(others)[len(others) - 1 - allowed]
        hits.append(part.p[own, k] > threshold)
        numbers.append(own)
        strata.append(recognition.Stratum(len(own), len(others), allowed))
    return _Recognised(np.concatenate(hits), np.concatenate(numbers), tuple(strata))
