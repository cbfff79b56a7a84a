"""Whether the attack chosen on validation rows gains anything on test rows, by a permutation test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from edgeveil.trainer.attacks.problem import Problem
from edgeveil.trainer.attacks.scores.scoring import Scored
from edgeveil.trainer.measures.permutation import SHUFFLES, Permuted, permutation_test

LEVEL = 0.01


class Gain(NamedTuple):
    """``name`` is the adaptive attack with most bits on validation rows, ``test`` its permutation test on test rows."""

    name: str
    test: Permuted

    @property
    def leaks(self) -> bool:
        """Whether the test fires at 1 %."""
        return self.test.p <= LEVEL


def of_best(problem: Problem, kept: Sequence[Scored], *, seed: int = 0, shuffles: int = SHUFFLES) -> Gain | None:
    """The permutation test of the attack of ``kept`` that was best on validation; None where none is adaptive.

    One attack is tested, chosen on other rows: nothing has to be corrected for.
    """
    adaptive = [one for one in kept if one.row.kind == "adaptive"]
    if not adaptive:
        return None
    best = max(adaptive, key=lambda one: one.row.validation_bits)
    test, answers = problem.test, best.sure["test"]
    rng = np.random.default_rng([seed, 99])
    found = permutation_test(problem.counted, answers, test.y, test.z, test.cluster, shuffles=shuffles, rng=rng)
    return Gain(best.row.name, found)
