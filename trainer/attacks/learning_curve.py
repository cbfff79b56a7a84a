"""The learning curve of the best attack: whether it would do better with more data."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from edgeveil.trainer.attacks.problem import Problem
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.measures import attack_metrics, intervals

FRACTIONS = (0.125, 0.25, 0.5)
FEWEST_ROWS = 40


class Point(NamedTuple):
    """Accuracy on the test rows after ``rows`` training rows, with its 95 % interval."""

    rows: int
    accuracy: float
    low: float
    high: float


class Curve(NamedTuple):
    """The best attack found, trained again on 1/8, 1/4 and 1/2 of its rows, and as it was on all of them.

    ``gain`` is the gain in accuracy of the last doubling, on the same test rows, with its interval; ``rising`` is
    whether the interval is above 0.
    """

    name: str
    seed: int
    points: tuple[Point, ...]
    gain: float
    gain_low: float
    gain_high: float
    rising: bool


def learning_curve(problem: Problem, family: Adversary, *, seed: int, rows: int, full: np.ndarray) -> Curve | None:
    """Train ``family`` on parts of the ``rows`` it had; ``full`` (n,) marks the test rows it got right with all.

    None where an eighth of the rows is too few to train on.
    """
    test = problem.test
    problem = part(problem, min(1.0, rows / (len(problem.fit) + len(problem.stop))))
    if len(problem.fit) * FRACTIONS[0] < FEWEST_ROWS:
        return None
    points, half = [], full
    for fraction in FRACTIONS:
        less = part(problem, fraction)
        attack = family.fit(less, seed)
        calibration = attack_metrics.calibrate(
            attack.probabilities(problem.choose), problem.base(problem.choose), problem.choose.z
        )
        half = calibration.apply(attack.probabilities(test), problem.base(test)).argmax(axis=1) == test.z
        points.append(Point(attack.train_samples, *intervals.rate(half, test.cluster)))
    points.append(Point(rows, *intervals.rate(full, test.cluster)))
    gain = intervals.mean(full.astype(np.float64) - half, test.cluster)
    return Curve(family.name, seed, tuple(points), gain.estimate, gain.low, gain.high, gain.low > 0)


def part(problem: Problem, fraction: float) -> Problem:
    """The same question with ``fraction`` of the rows to train and to stop on (they are in random order already)."""
    fit, stop = (rows.take(slice(max(8, round(len(rows) * fraction)))) for rows in (problem.fit, problem.stop))
    return replace(problem, fit=fit, stop=stop)
