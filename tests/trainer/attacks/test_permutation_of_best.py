"""The permutation test is of the attack that was best on validation rows, never of the luckiest on test rows."""

from __future__ import annotations

import numpy as np

from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.attacks.families.lowbits import LowBits
from edgeveil.trainer.attacks.findings import Findings
from edgeveil.trainer.attacks.problem import BUDGETS, Problem, Released
from edgeveil.trainer.attacks.protocol import Adaptive
from edgeveil.trainer.attacks.rows import Question
from edgeveil.trainer.attacks.run_all import attack_all
from edgeveil.trainer.audit.verdict import SIGNIFICANT
from tests.support import planted


def problem(strength: float, seed: int = 0) -> Problem:
    """A bit of a pixel of that strength."""
    rng = np.random.default_rng(seed)
    made = planted.clean(*planted.digits(), 1200, rng)
    return planted.problem(
        planted.leaky(made, planted.LEAKS["bit of a pixel"], strength, rng) if strength else made, BUDGETS["quick"]
    )


def found_in(asked: Problem) -> Findings:
    """Of two families and their ensemble."""
    return attack_all(Question.alone(asked), families=(Logistic(), LowBits()), curve=False)


def test_a_leak_fires_and_its_absence_does_not():
    found = found_in(problem(1.0))
    assert found.permutation.p == 0.001
    assert found.most_bits.name in ("lowest bits", "ensemble")
    assert found_in(problem(0.0)).permutation.p > SIGNIFICANT


class Told(Adaptive):
    """Answers that know a share of z on the rows to choose by, and another share on test rows."""

    def __init__(self, name: str, asked: Problem, on_choose: float, on_test: float) -> None:
        self.name, self._known = name, {len(asked.choose): on_choose, len(asked.test): on_test}

    def fit(self, _problem: Problem, _seed: int) -> Told:
        return self

    train_samples = 1

    def probabilities(self, part: Released) -> np.ndarray:
        one = 0.5 + self._known[len(part)] * (part.z - 0.5)
        return np.stack([1 - one, one], axis=1)


def test_an_attack_that_was_best_on_validation_by_luck_is_no_leak():
    asked = problem(0.0)
    found = attack_all(Question.alone(asked), families=(Told("lucky", asked, 0.5, 0.0),), curve=False)
    assert found.most_bits.validation_bits > 0.1
    assert found.permutation.p > SIGNIFICANT
