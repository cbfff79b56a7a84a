"""A network trained on clean and on perturbed samples: clean ones are easy to get."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgeveil.trainer.attacks.families.networks import plain_stands_in, train
from edgeveil.trainer.attacks.families.transfer import trunk_for
from edgeveil.trainer.attacks.problem import Problem, Released, joined
from edgeveil.trainer.attacks.protocol import Adaptive, Learned


class Mixed(Adaptive):
    """A BatchNorm CNN for pictures, a BatchNorm MLP for vectors, on half clean rows and half perturbed ones."""

    name = "mixed"
    order = 15
    seeded = True

    def why_not(self, problem: Problem) -> str | None:
        """It needs the samples behind its training rows."""
        return "no clean samples were given" if problem.fit.raw is None else plain_stands_in(problem)

    def fit(self, problem: Problem, seed: int) -> Learned:
        """Train on both forms of every row of ``fit``, stopped on the perturbed rows of ``stop``."""
        # Twice the rows of any other family would take twice its time.
        problem = problem.capped(problem.budget.rows // 2)
        both = joined(problem.fit, clean(problem.fit))
        both = both.take(np.random.default_rng(seed).permutation(len(both)))
        return train(problem, trunk_for(problem), seed, fit=both, stop=problem.stop, rate=2e-3)


def clean(part: Released) -> Released:
    """The same rows before they were perturbed; further outputs, which they never had, are 0."""
    return replace(part.unperturbed(), also=None if part.also is None else np.zeros_like(part.also))
