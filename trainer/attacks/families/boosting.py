"""Gradient boosting on every value of x' and y: finds thresholds and combinations that no smooth model follows."""

from __future__ import annotations

from functools import partial

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.estimator import MOST_CLASSES, View, trees
from edgeveil.trainer.attacks.problem import Problem
from edgeveil.trainer.attacks.protocol import Adaptive, Learned


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

    def fit(self, problem: Problem, seed: int) -> Learned:
        """Train on ``fit``, stopped on ``stop``."""
        problem = problem.capped(problem.budget.rows)
        return trees(problem, self.view(problem), seed)

    def view(self, problem: Problem) -> View:
        """What the trees see of rows."""
        return partial(features.everything, problem)
