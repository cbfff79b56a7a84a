"""Logistic regression on every value of x' and y, standardised."""

from __future__ import annotations

import numpy as np

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.estimator import EstimatorAttack, log_loss
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Everywhere, Kind

STRENGTHS = (0.003, 0.03, 0.3)  # inverse ridge penalties; the best on the stopping rows is kept


class Logistic(Everywhere):
    """A linear boundary in all values; its ridge penalty is chosen on the stopping rows."""

    name = "logistic regression"
    kind: Kind = "adaptive"
    seeded = False

    def fit(self, problem: Problem, _seed: int) -> EstimatorAttack:
        """Fit each strength on ``fit`` and keep the one with the smallest log-loss on ``stop``."""
        from sklearn.linear_model import LogisticRegression

        problem = problem.capped(problem.budget.rows)
        standard = features.Standard.fit(features.flat(problem, problem.fit))

        def view(part: Released) -> np.ndarray:
            return np.concatenate([standard.apply(features.flat(problem, part)), features.side(problem, part)], axis=1)

        seen = view(problem.fit)
        rows = len(problem.fit) + len(problem.stop)
        attacks = [
            EstimatorAttack(
                LogisticRegression(C=c, max_iter=200, tol=1e-3).fit(seen, problem.fit.z),
                view,
                problem.z_classes,
                rows,
            )
            for c in STRENGTHS
        ]
        return min(attacks, key=lambda attack: log_loss(attack.probabilities(problem.stop), problem.stop.z))
