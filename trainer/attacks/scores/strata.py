"""Attacks that are sure of some rows only: the surest twentieth, and rows whose label is wrong.

An average over all rows hides a leak about 1 in 20 people, or about the few rows that the classifier gets wrong. Which
rows are the surest is decided by a threshold on the validation rows, so the rates on test rows are not selected.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from edgeveil.trainer.attacks.scores.exposure import NOTHING, Judged
from edgeveil.trainer.measures import attack_metrics
from edgeveil.trainer.measures.intervals import Interval, rate

SHARE = 0.05
FEWEST_ROWS = 10


class Stratum(NamedTuple):
    """Right guesses of z on ``rows`` test rows with their 95 % interval; NaN where there are fewer than 10.

    ``chance`` is the share that the best guess from y alone gets right there, ``share`` that of the test rows in this
    stratum, ``bits`` the gain beyond P(z|y) per row with its interval.
    """

    rate: Interval
    chance: float
    bits: Interval
    rows: int
    share: float

    @property
    def above_chance(self) -> bool:
        """Whether the interval of the rate lies above chance."""
        return bool(self.rate.low > self.chance)


def surest(choose: Judged, test: Judged, prior: np.ndarray, share: float = SHARE) -> np.ndarray:
    """The numbers (m,) of the test rows, or of those of whole clusters, that the attack is surest of.

    They are the top ``share`` by validation's threshold, or more where many are equally sure. ``prior`` (classes of y,
    classes of z) is P(z|y). Sureness is the information gain that the attack itself expects, sum of p log2(p / prior),
    averaged over the rows of a cluster. It never looks at z.
    """
    _, of_choose = _sureness(choose, prior)
    rows, of_test = _sureness(test, prior)
    threshold = np.quantile(of_choose, 1 - share, method="higher") if len(of_choose) else np.inf
    # Rows of one code tie: all of it, unless that is most rows, of which none is surer than another.
    at_least = of_test >= threshold
    return np.flatnonzero((at_least if at_least.mean() <= 0.5 else of_test > threshold)[rows])


def by_label(test: Judged, right: np.ndarray, prior_right: np.ndarray, prior_wrong: np.ndarray) -> dict[str, Stratum]:
    """Rows whose label sent is ``right`` (bool, (n,)) and those where it is wrong, each against its own P(z|y).

    Both priors (classes of y, classes of z) are counted on training rows with a right and with a wrong label: what a
    wrong label itself tells is chance here, for it is sent anyway.
    """
    return {
        "right label": stratum(test, np.flatnonzero(right), prior_right),
        "wrong label": stratum(test, np.flatnonzero(~right), prior_wrong),
    }


def stratum(test: Judged, rows: np.ndarray, prior: np.ndarray) -> Stratum:
    """The rates of the test rows of these numbers (m,)."""
    share = len(rows) / max(1, len(test.z))
    if len(rows) < FEWEST_ROWS:
        return Stratum(NOTHING, float("nan"), NOTHING, len(rows), share)
    y, z, p = test.y[rows], test.z[rows], test.p[rows]
    cluster = None if test.cluster is None else test.cluster[rows]
    return Stratum(
        rate(p.argmax(axis=1) == z, cluster),
        float((prior[y].argmax(axis=1) == z).mean()),
        attack_metrics.bits_beyond(prior, p, y, z, cluster),
        len(rows),
        share,
    )


def _sureness(part: Judged, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The unit of each row (n,), and of each unit what the attack expects to have gained, bits."""
    p, base = (np.maximum(values, attack_metrics.FLOOR) for values in (part.p, prior[part.y]))
    gain = (p * np.log2(p / base)).sum(axis=1)
    if part.cluster is None:
        return np.arange(len(gain)), gain
    unit = np.unique(part.cluster, return_inverse=True)[1].reshape(-1)
    return unit, np.bincount(unit, weights=gain) / np.bincount(unit)
