"""A random forest on every value of x' and y: cheap with many values of z, and hard to starve."""

from __future__ import annotations

import numpy as np

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.boosting import MOST_CLASSES
from edgeveil.trainer.attacks.families.estimator import EstimatorAttack
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Kind


class Forest:
    """A random forest on all values."""

    name = "random forest"
    kind: Kind = "adaptive"
    seeded = False  # a forest of hundreds of trees hardly depends on it

    def why_not(self, problem: Problem) -> str | None:
        """Where boosting runs, the quick audit does without."""
        if problem.z_classes <= MOST_CLASSES and not problem.budget.every_family:
            return "gradient boosting stands for trees in the quick audit"
        return None

    def fit(self, problem: Problem, seed: int) -> EstimatorAttack:
        """Train on ``fit`` and ``stop`` together: a forest needs no stopping."""
        from sklearn.ensemble import RandomForestClassifier

        problem = problem.capped(problem.budget.rows)

        def view(part: Released) -> np.ndarray:
            return np.concatenate([features.flat(problem, part), features.side(problem, part)], axis=1)

        training = problem.training()
        model = RandomForestClassifier(problem.budget.trees, min_samples_leaf=2, n_jobs=2, random_state=seed)
        return EstimatorAttack(model.fit(view(training), training.z), view, problem.z_classes, len(training))
