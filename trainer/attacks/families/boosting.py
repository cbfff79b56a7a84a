"""Gradient boosting on every value of x' and y: finds thresholds and combinations that no smooth model follows."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.estimator import EstimatorAttack, View
from edgeveil.trainer.attacks.problem import Problem
from edgeveil.trainer.attacks.protocol import Adaptive

MOST_CLASSES = 10  # each class of z is a forest of its own; beyond this a random forest does the work


class GradientBoosting(Adaptive):
    """Boosted trees on all values, where z has at most 10: thresholds and combinations."""

    name = "gradient boosting"
    order = 16
    seeded = True
    stands_in = "random forest"  # where there are more values

    def why_not(self, problem: Problem) -> str | None:
        """Too many values of z make it too slow."""
        if problem.z_classes > MOST_CLASSES:
            return f"z has {problem.z_classes} values, more than {MOST_CLASSES}: {self.stands_in} stands in"
        return None

    def fit(self, problem: Problem, seed: int) -> EstimatorAttack:
        """Train on ``fit``, stopped on ``stop``."""
        problem = problem.capped(problem.budget.rows)
        view = self.view(problem)
        fit, stop = problem.fit, problem.stop
        model = boosted(view(fit), fit.z, view(stop), stop.z, problem.budget.trees, seed)
        return EstimatorAttack(model, view, problem.z_classes, len(fit) + len(stop))

    def view(self, problem: Problem) -> View:
        """What the trees see of rows."""
        return partial(features.everything, problem)


def boosted(x: np.ndarray, z: np.ndarray, x_stop: np.ndarray, z_stop: np.ndarray, trees: int, seed: int) -> Any:
    """A histogram gradient boosting classifier, stopped early on rows of its own."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    known = np.isin(z_stop, np.unique(z))
    model = HistGradientBoostingClassifier(
        max_iter=trees,
        learning_rate=0.15,
        max_leaf_nodes=15,
        max_features=0.3,
        early_stopping=True,
        n_iter_no_change=8,
        random_state=seed,
    )
    # On little data threads only wait for each other: 30 s instead of 0.3 s on two busy cores.
    with threadpool_limits(1 if x.size < 5_000_000 else None, user_api="openmp"):
        return model.fit(x, z, X_val=x_stop[known], y_val=z_stop[known])
