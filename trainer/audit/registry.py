"""The one registry of adversaries, for every kind of perturber. A new attack is one small file and one line here."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np

from trainer.audit.problem import Problem, Released

Kind = Literal["fixed", "transfer", "adaptive"]


class Attack(Protocol):
    """A trained attack."""

    @property
    def train_samples(self) -> int:
        """How many rows it learned from, those for early stopping included."""
        ...

    def probabilities(self, part: Released) -> np.ndarray:
        """P(z | x', y) of each row, (n, classes of z), rows summing to 1."""
        ...


class Adversary(Protocol):
    """One family of attacks.

    ``kind`` says what it learns from: *fixed* is the classifier the perturber was trained against, *transfer* another
    one trained on clean data, *adaptive* learns from perturbed data. Only the last is evidence of privacy.
    """

    name: str
    kind: Kind
    seeded: bool  # whether another seed gives another attack

    def why_not(self, problem: Problem, /) -> str | None:
        """Why this family cannot attack here, or None; the reason is printed in its row."""
        ...

    def fit(self, problem: Problem, seed: int, /) -> Attack: ...


def adversaries() -> tuple[Adversary, ...]:
    """Every family, in the order of the table."""
    from trainer.audit.adversaries.boosting import GradientBoosting
    from trainer.audit.adversaries.cnn import BatchNormCNN, PlainCNN
    from trainer.audit.adversaries.fixed import Fixed
    from trainer.audit.adversaries.forest import Forest
    from trainer.audit.adversaries.lda import ShrinkageLDA
    from trainer.audit.adversaries.logistic import Logistic
    from trainer.audit.adversaries.lowbits import LowBits
    from trainer.audit.adversaries.mlp import BatchNormMLP
    from trainer.audit.adversaries.transfer import Transfer

    return (
        Fixed(),
        Transfer(),
        Logistic(),
        ShrinkageLDA(),
        GradientBoosting(),
        Forest(),
        LowBits(),
        BatchNormMLP(),
        PlainCNN(),
        BatchNormCNN(),
    )
