"""The fixed D_z, which the perturber was trained against, unchanged: the paper's own measure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.networks import logits
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Kind


class Fixed:
    """D_z on x'. It never saw a perturbed sample, and the perturber was trained against it: no evidence of privacy."""

    name = "fixed D_z"
    order = 1
    kind: Kind = "fixed"
    seeded = False
    needs_d_z = True

    def why_not(self, problem: Problem) -> str | None:
        """It needs a sensitive classifier."""
        return "the run has no sensitive classifier" if problem.sensitive is None else None

    def fit(self, problem: Problem, _seed: int) -> FixedAttack:
        """Nothing is learned: D_z as the run left it."""
        return FixedAttack(problem, 0 if problem.clean is None else len(problem.clean))


@dataclass(frozen=True)
class FixedAttack:
    """D_z's logits with the z that theta_y rules out removed (the D_z(x|y) of eq. 8)."""

    problem: Problem
    train_samples: int

    def probabilities(self, part: Released) -> np.ndarray:
        """D_z(z | x', y) of each row."""
        answers = logits(self.problem.sensitive, features.unit(self.problem, part))
        return masked(answers, self.problem.theta[part.y])


def masked(answers: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Softmax of logits over the z with a positive prior; the others get probability 0."""
    return special.softmax(np.where(allowed > 0, answers, -np.inf), axis=1)
