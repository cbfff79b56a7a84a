"""Questions about a label that one attack on it answers: which side of a threshold or of a grouping is a row on?

Who hides "under 18" may publish "under 17". The posterior of a side is the sum of those of its classes, so one attack
answers thousands of questions. The worst is chosen on the validation rows and measured on the test rows, so it is not
the largest of many noisy ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from edgeveil.trainer.attacks.scores.exposure import Judged
from edgeveil.trainer.measures import attack_metrics
from edgeveil.trainer.measures.attack_metrics import FLOOR, Calibration
from edgeveil.trainer.measures.intervals import Interval
from edgeveil.trainer.measures.permutation import sequential_test

MOST_CLASSES = 12  # all groupings of so many are asked: 2,047
MOST_CUTS = 64
AT_ONCE = 64
TRUST = (1.0, 0.5, 0.25)


class Answer(NamedTuple):
    """A question of which ``side`` (classes of the label,) bool a row is on, answered on the test rows.

    ``auc`` within y and ``bits`` beyond y with their intervals; ``p`` of the permutation test, not corrected, None
    where rows of one cluster have several answers. ``chosen_by`` are the bits on validation.
    """

    side: np.ndarray
    auc: Interval
    bits: Interval
    p: float | None
    chosen_by: float


def thresholds(classes: int) -> np.ndarray:
    """Sides "below class k" of an ordered label, (cuts, classes) bool; ``MOST_CUTS`` of them at most."""
    cuts = np.unique(np.linspace(1, classes - 1, min(classes - 1, MOST_CUTS)).round().astype(int))
    return np.arange(classes)[None] < cuts[:, None]


def groupings(classes: int) -> np.ndarray:
    """One side of every way to put the classes into two groups, (2^(classes - 1) - 1, classes) bool."""
    numbers = np.arange(1, 2 ** (classes - 1))
    return (numbers[:, None] >> np.arange(classes)[None] & 1).astype(bool)


def worst(
    sides: np.ndarray, choose: Judged, test: Judged, prior: np.ndarray, *, rng: np.random.Generator
) -> Answer | None:
    """The answer of which an attack on the label has most bits on validation rows.

    ``sides`` (questions, classes); ``choose`` and ``test`` hold the attack's own probabilities of the label, ``prior``
    (classes of y, classes of the label) is P(label|y). None where y alone answers them all.

    An attack may be wrong about most classes of a label and right about one question, so trust in it is not one number
    for the label: the best of ``TRUST`` ranks the questions, and the worst of them is calibrated by itself.
    """
    of_trust = []
    for trust in TRUST:
        part = choose._replace(p=Calibration(trust, 1 - trust).apply(choose.p, prior[choose.y]))
        of_trust.append([_bits(sides[i : i + AT_ONCE], part, prior) for i in range(0, len(sides), AT_ONCE)])
    bits = np.max([np.concatenate(blocks) for blocks in of_trust], axis=0)
    open_ = np.array([_asked(side, test) for side in sides])
    if not open_.any():
        return None
    # Within y many groupings are the same question: the first of them, whatever rounding says.
    best = int(np.where(open_, bits.round(4), -np.inf).argmax())
    side = sides[best]
    of_choose, of_test = _two(choose, side), _two(test, side)
    base = np.stack([1 - prior @ side, prior @ side], axis=1)
    calibration = attack_metrics.calibrate(of_choose.p, base[choose.y], of_choose.z)
    sure = calibration.apply(of_test.p, base[test.y])
    gains = attack_metrics.gains(base, sure, test.y)
    asked = gains, test.y, of_test.z, test.cluster, lambda gain: float(gain.mean())
    tested = sequential_test(*asked, fold=test.fold, rng=rng)
    return Answer(
        side,
        attack_metrics.area_within_y(of_test.p[:, 1], test.y, of_test.z == 1, test.cluster),
        attack_metrics.bits_beyond(base, sure, test.y, of_test.z, test.cluster),
        tested.p,
        float(bits[best]),
    )


def _two(part: Judged, side: np.ndarray) -> Judged:
    """The same answers as those to the question of the side."""
    yes = np.clip(part.p @ side, FLOOR, 1 - FLOOR)
    return part._replace(p=np.stack([1 - yes, yes], axis=1), z=side[part.z].astype(np.int64))


def _bits(sides: np.ndarray, part: Judged, prior: np.ndarray) -> np.ndarray:
    """Mean bits beyond y of each question, (questions,)."""
    answer = sides[:, part.z]
    yes, base = (np.clip(table @ sides.T.astype(np.float64), FLOOR, 1 - FLOOR).T for table in (part.p, prior))
    base = base[:, part.y]
    found = np.where(answer, np.log2(yes / base), np.log2((1 - yes) / (1 - base)))
    return found.mean(axis=1)


def _asked(side: np.ndarray, test: Judged) -> bool:
    """Whether some y has both answers among the test rows."""
    answer = side[test.z]
    yes, no = (np.bincount(test.y[answer == one], minlength=int(test.y.max()) + 1) for one in (True, False))
    return bool(((yes > 0) & (no > 0)).any())
