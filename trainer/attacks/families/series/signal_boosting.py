"""Boosted trees on statistical and spectral features of a signal, which trees on its single samples do not find."""

from __future__ import annotations

import numpy as np

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.boosting import MOST_CLASSES, boosted
from edgeveil.trainer.attacks.families.estimator import EstimatorAttack
from edgeveil.trainer.attacks.families.networks import counting_stands_in
from edgeveil.trainer.attacks.families.series.signal_features import signal_features
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Adaptive


class SignalBoosting(Adaptive):
    """Gradient boosting on the features of ``signal_features``, y and every further output."""

    name = "boosted signal features"
    seeded = True
    of = "series"

    def why_not(self, problem: Problem) -> str | None:
        """With many values of z it is too slow."""
        if problem.z_classes > MOST_CLASSES:
            return f"z has {problem.z_classes} values, more than {MOST_CLASSES}: the network over time stands in"
        return counting_stands_in(problem)

    def fit(self, problem: Problem, seed: int) -> EstimatorAttack:
        """Train on ``fit``, stopped on ``stop``."""
        problem = problem.capped(problem.budget.rows)

        def view(part: Released) -> np.ndarray:
            return np.concatenate([signal_features(features.unit(problem, part)), features.side(problem, part)], axis=1)

        fit, stop = problem.fit, problem.stop
        model = boosted(view(fit), fit.z, view(stop), stop.z, problem.budget.trees, seed)
        return EstimatorAttack(model, view, problem.z_classes, len(fit) + len(stop))
