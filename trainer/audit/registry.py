"""The one registry of adversaries, for every kind of perturber. A new attack is one small file and one line here."""

from __future__ import annotations

from trainer.audit.adversaries.boosting import GradientBoosting
from trainer.audit.adversaries.cnn import BatchNormCNN, PlainCNN
from trainer.audit.adversaries.fixed import Fixed
from trainer.audit.adversaries.forest import Forest
from trainer.audit.adversaries.lda import ShrinkageLDA
from trainer.audit.adversaries.logistic import Logistic
from trainer.audit.adversaries.lowbits import LowBits
from trainer.audit.adversaries.mlp import BatchNormMLP
from trainer.audit.adversaries.transfer import Transfer
from trainer.audit.adversary import Adversary


def adversaries() -> tuple[Adversary, ...]:
    """Every family, in the order of the table."""
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
