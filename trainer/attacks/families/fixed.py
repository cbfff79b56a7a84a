"""The fixed D_z, which the perturber was trained against, unchanged: the paper's own measure."""

from __future__ import annotations

import numpy as np
from scipy import special

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.networks import logits
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Kind, Learned


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

    def fit(self, problem: Problem, _seed: int) -> Learned:
        """Nothing is learned: D_z as the run left it, without the z that theta_y rules out (the D_z(x|y) of eq. 8)."""

        def probabilities(part: Released) -> np.ndarray:
            return masked(logits(problem.sensitive, features.unit(problem, part)), problem.theta[part.y])

        return Learned(probabilities, 0 if problem.clean is None else len(problem.clean))


def masked(answers: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Softmax of logits over the z with a positive prior; the others get probability 0."""
    return special.softmax(np.where(allowed > 0, answers, -np.inf), axis=1)
