"""A random forest on every value of x' and y: cheap with many values of z, and hard to starve."""

from __future__ import annotations

from functools import partial

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.estimator import MOST_CLASSES, behind, forest
from edgeveil.trainer.attacks.problem import Problem
from edgeveil.trainer.attacks.protocol import Adaptive, Learned


class Forest(Adaptive):
    """A random forest on all values, also where z has more than 10: thresholds and combinations."""

    name = "random forest"
    order = 8
    swept = True
    # Not seeded: a forest of hundreds of trees hardly depends on its seed.

    def why_not(self, problem: Problem) -> str | None:
        """The quick audit leaves it out where boosting runs."""
        if problem.z_classes <= MOST_CLASSES and not problem.budget.every_family:
            return "gradient boosting stands for trees in the quick audit"
        return None

    def fit(self, problem: Problem, seed: int) -> Learned:
        """Train on ``fit`` and ``stop`` together: a forest needs no stopping."""
        problem = problem.capped(problem.budget.rows)
        view = partial(features.everything, problem)
        training = problem.training()
        model = forest(view(training), training.z, problem.budget.trees, seed)
        return behind(view, model, problem, len(training))
