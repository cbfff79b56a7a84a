"""The permutation test is of the attack that was best on validation rows, never of the luckiest on test rows."""

from __future__ import annotations

import numpy as np

from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.attacks.families.lowbits import LowBits
from edgeveil.trainer.attacks.problem import BUDGETS, Problem
from edgeveil.trainer.attacks.run_all import attack_all
from edgeveil.trainer.attacks.scores.scoring import Scored, score
from edgeveil.trainer.audit import significance
from scripts.reproduce.attacks import planted


def problem(strength: float, seed: int = 0) -> Problem:
    """A bit of a pixel of that strength."""
    rng = np.random.default_rng(seed)
    made = planted.clean(*planted.digits(), 1200, rng)
    return planted.problem(
        planted.leaky(made, planted.LEAKS["bit of a pixel"], strength, rng) if strength else made, BUDGETS["quick"]
    )


def gain_of(asked: Problem) -> significance.Gain:
    """Of two families and their ensemble."""
    found: list[significance.Gain | None] = []
    attack_all(
        asked,
        families=(Logistic(), LowBits()),
        curve=False,
        look=lambda kept: found.append(significance.of_best(asked, kept)),
    )
    assert found[0] is not None
    return found[0]


def test_a_leak_fires_and_its_absence_does_not():
    found = gain_of(problem(1.0))
    assert found.leaks
    assert found.test.p == 0.001
    assert found.name in ("lowest bits", "ensemble")
    assert not gain_of(problem(0.0)).leaks


def test_the_attack_is_chosen_on_validation_rows():
    asked = problem(0.0)

    def attack(name: str, on_choose: float, on_test: float, kind: str = "adaptive") -> Scored:
        raw = {}
        for part, rows, known in (("choose", asked.choose, on_choose), ("test", asked.test, on_test)):
            one = 0.5 + known * (rows.z - 0.5)
            raw[part] = np.stack([1 - one, one], axis=1)
        return score(asked, raw, name=name, kind=kind, seed=0, train_samples=1, begun=0.0)

    kept = [attack("chosen", 0.5, 0.0), attack("lucky", 0.0, 0.9), attack("fixed", 0.9, 0.9, kind="fixed")]
    found = significance.of_best(asked, kept)
    assert found is not None
    assert found.name == "chosen"
    assert not found.leaks
    assert significance.of_best(asked, kept[2:]) is None
