"""Logistic regression on every value of x' and y, standardised."""

from __future__ import annotations

import numpy as np

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.estimator import behind, log_loss
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Adaptive, Learned

STRENGTHS = (0.003, 0.03, 0.3)  # inverse ridge penalties; the best on the stopping rows is kept


class Logistic(Adaptive):
    """A linear boundary in all values; its ridge penalty is chosen on the stopping rows."""

    name = "logistic regression"
    order = 3

    def fit(self, problem: Problem, _seed: int) -> Learned:
        """Fit each strength on ``fit`` and keep the one with the smallest log-loss on ``stop``."""
        from sklearn.linear_model import LogisticRegression

        problem = problem.capped(problem.budget.rows)
        fit, stop = problem.fit, problem.stop
        standard = features.Standard.fit(features.flat(problem, fit))

        def view(part: Released) -> np.ndarray:
            return np.concatenate([standard.apply(features.flat(problem, part)), features.side(problem, part)], axis=1)

        seen = view(fit)
        models = [LogisticRegression(C=c, max_iter=200, tol=1e-3).fit(seen, fit.z) for c in STRENGTHS]
        attacks = [behind(view, model, problem, len(fit) + len(stop)) for model in models]
        return min(attacks, key=lambda attack: log_loss(attack.probabilities(stop), stop.z))
