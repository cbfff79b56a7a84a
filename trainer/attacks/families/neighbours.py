"""An attack on the rows before and after: what x' of one row tells of z of the next one, or of the one before.

It is given x' of both neighbours and no label of theirs, so no label of a test row is learned from. Where labels of
neighbours tell z by themselves (sorted rows, a recording), this would be found whatever the mechanism does: such rows
have no ``beside`` (``rows.in_order``), and audits of tracks ask about them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from edgeveil.trainer.attacks.families.boosting import GradientBoosting
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.attacks.families.lowbits import LowBits
from edgeveil.trainer.attacks.families.wrong_labels import best_attack
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Adaptive, Adversary, Learned
from edgeveil.trainer.datasets.base import InputSpec

WITHIN: tuple[Adversary, ...] = (Logistic(), GradientBoosting(), LowBits())


class NeighbouringRows(Adaptive):
    """The best of three attacks on x' of the rows before and after, where rows have an order."""

    name = "neighbouring rows"
    order = 23
    seeded = True

    def why_not(self, problem: Problem) -> str | None:
        """There must be an order, and the labels of neighbours must not tell z by themselves."""
        if problem.fit.beside is None:
            return "the order of rows is not known, or labels of neighbouring rows tell z by themselves"
        return None

    def fit(self, problem: Problem, seed: int) -> Learned:
        """Learn z of rows of ``fit`` from their neighbours' x'; P(z|y) where none had a smaller loss on ``stop``."""
        problem = problem.capped(problem.budget.rows)
        fit, stop = _beside(problem.fit), _beside(problem.stop)
        spec = InputSpec("vector", fit.x.shape[1:], str(fit.x.dtype), None, None)
        inner = best_attack(replace(problem, input=spec, fit=fit, stop=stop), seed, WITHIN)
        if inner is None:
            return Learned(problem.base, len(fit) + len(stop))
        return Learned(lambda part: inner.probabilities(_beside(part)), len(fit) + len(stop))


def _beside(part: Released) -> Released:
    """The rows with x' of their neighbours as vectors in the place of their own."""
    x = cast(np.ndarray, part.beside).reshape(len(part), -1)  # why_not checked
    return replace(part.as_received(), x=x, also=None, codes=None, beside=None)
