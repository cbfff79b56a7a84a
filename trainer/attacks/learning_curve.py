"""The learning curve of the best attack: whether it would do better with more data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgeveil.trainer.attacks.findings import Curve, Point
from edgeveil.trainer.attacks.journal import answered
from edgeveil.trainer.attacks.problem import Problem
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.question import Setting
from edgeveil.trainer.measures import attack_metrics, intervals

FRACTIONS = (0.125, 0.25, 0.5)
FEWEST_ROWS = 40
FEWEST_WRONG = 0.02  # of the test rows; an attack that gets fewer wrong has nothing left to find


def learning_curve(setting: Setting, family: Adversary, *, seed: int, rows: int, full: np.ndarray) -> Curve | None:
    """Train ``family`` on parts of the ``rows`` it had; ``full`` (n,) says which test rows it got right with all.

    None where an eighth of the rows would be too few to train on at all, and in a quick audit where the attack gets
    hardly any row wrong.
    """
    if not setting.whole.budget.every_family and 1 - float(full.mean()) < FEWEST_WRONG:
        return None
    whole, first = setting.whole, setting.folds[0]
    share = min(1.0, rows / (len(first.fit) + len(first.stop)))
    folds = [part(fold, share) for fold in setting.folds]
    if min(len(fold.fit) for fold in folds) * FRACTIONS[0] < FEWEST_ROWS:
        return None
    points, half = [], full
    for fraction in FRACTIONS:
        said = [answered(part(fold, fraction), family, seed) for fold in folds]
        choose, test = (np.concatenate([one.raw[name] for one in said]) for name in ("choose", "test"))
        calibration = attack_metrics.calibrate(choose, whole.base(whole.choose), whole.choose.z)
        half = calibration.apply(test, whole.base(whole.test)).argmax(axis=1) == whole.test.z
        points.append(Point(said[0].train_samples, *intervals.rate(half, whole.test.cluster)))
    points.append(Point(rows, *intervals.rate(full, whole.test.cluster)))
    gain = intervals.mean(full.astype(np.float64) - half, whole.test.cluster)
    return Curve(family.name, seed, tuple(points), gain.estimate, gain.low, gain.high, gain.low > 0)


def part(problem: Problem, fraction: float) -> Problem:
    """The same question with ``fraction`` of the rows to train and to stop on (they are in random order already)."""
    fit, stop = (rows.take(slice(max(8, round(len(rows) * fraction)))) for rows in (problem.fit, problem.stop))
    return replace(problem, fit=fit, stop=stop)
