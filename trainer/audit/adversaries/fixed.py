"""The paper's own measure: the sensitive classifier that the perturber was trained against, as it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from trainer.audit import views
from trainer.audit.problem import Problem, Released


class Fixed:
    """D_z on x'. It has never seen a perturbed reading, and the perturber has seen all of it: no evidence of privacy."""

    name = "fixed D_z"
    kind = "fixed"
    seeded = False

    def why_not(self, problem: Problem) -> str | None:
        return "the run has no sensitive classifier" if problem.sensitive is None else None

    def fit(self, problem: Problem, seed: int) -> "FixedAttack":
        return FixedAttack(problem, 0 if problem.clean is None else len(problem.clean))


@dataclass(frozen=True)
class FixedAttack:
    """D_z's logits with the z that theta_y rules out removed (the D_z(x|y) of eq. 8)."""

    problem: Problem
    train_samples: int

    def probabilities(self, part: Released) -> np.ndarray:
        logits = self.problem.sensitive.predict(views.unit(self.problem, part), batch_size=512, verbose=0)
        return masked(np.asarray(logits, np.float64), self.problem.theta[part.y])


def masked(logits: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Softmax over the z with a positive prior; the others get probability 0."""
    return special.softmax(np.where(allowed > 0, logits, -np.inf), axis=1)
