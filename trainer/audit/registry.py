"""The one registry of adversaries, for every kind of perturber. A new attack is one small file and one line here."""

from __future__ import annotations

from trainer.audit import plugins
from trainer.audit.adversaries.boosting import GradientBoosting
from trainer.audit.adversaries.cnn import BATCH_NORM_CNN, PLAIN_CNN
from trainer.audit.adversaries.codes import BayesKnowingChannel, CodeCounts
from trainer.audit.adversaries.finetuned import FineTuned
from trainer.audit.adversaries.fixed import Fixed
from trainer.audit.adversaries.forest import Forest
from trainer.audit.adversaries.inversion import Inversion
from trainer.audit.adversaries.lda import ShrinkageLDA
from trainer.audit.adversaries.logistic import Logistic
from trainer.audit.adversaries.lowbits import LowBits
from trainer.audit.adversaries.mixed import Mixed
from trainer.audit.adversaries.mlp import BATCH_NORM_MLP
from trainer.audit.adversaries.transfer import Transfer
from trainer.audit.adversary import Adversary

BUILT_IN: tuple[Adversary, ...] = (
    Fixed(),
    Transfer(),
    Logistic(),
    ShrinkageLDA(),
    GradientBoosting(),
    Forest(),
    LowBits(),
    CodeCounts(),
    BayesKnowingChannel(),
    BATCH_NORM_MLP,
    PLAIN_CNN,
    BATCH_NORM_CNN,
    FineTuned(),
    Mixed(),
    Inversion(),
)


def adversaries() -> tuple[Adversary, ...]:
    """Every family, in the order of the table: those of EdgeVeil, then a user's own by their entry points.

    The ensemble is made of the others after they have run (``trainer.audit.ensemble``), and is no family of its own.
    """
    return BUILT_IN + plugins.found(taken=[family.name for family in BUILT_IN])
