"""The one registry of adversaries, for every kind of perturber. A new attack is one small file and one line here."""

from __future__ import annotations

from collections.abc import Sequence

from edgeveil.trainer.attacks import plugins
from edgeveil.trainer.attacks.families.boosting import GradientBoosting
from edgeveil.trainer.attacks.families.cnn import BATCH_NORM_CNN, PLAIN_CNN
from edgeveil.trainer.attacks.families.code_counts import BayesKnowingChannel, CodeCounts
from edgeveil.trainer.attacks.families.finetuned import FineTuned
from edgeveil.trainer.attacks.families.fixed import Fixed
from edgeveil.trainer.attacks.families.forest import Forest
from edgeveil.trainer.attacks.families.inversion import Inversion
from edgeveil.trainer.attacks.families.lda import ShrinkageLDA
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.attacks.families.lowbits import LowBits
from edgeveil.trainer.attacks.families.mixed import Mixed
from edgeveil.trainer.attacks.families.mlp import BATCH_NORM_MLP
from edgeveil.trainer.attacks.families.series.nearest import NearestInShape
from edgeveil.trainer.attacks.families.series.network import SERIES_CNN, SERIES_GRU
from edgeveil.trainer.attacks.families.series.signal_boosting import SignalBoosting
from edgeveil.trainer.attacks.families.targeted.parities import Parities
from edgeveil.trainer.attacks.families.targeted.wrong_labels import WrongLabels
from edgeveil.trainer.attacks.families.transfer import Transfer
from edgeveil.trainer.attacks.protocol import Adversary

# In a quick audit an attack that reads nearly all of z ends the search: of the slow ones, the strongest come first.
BUILT_IN: tuple[Adversary, ...] = (
    Fixed(),
    Transfer(),
    Logistic(),
    ShrinkageLDA(),
    LowBits(),
    CodeCounts(),
    BayesKnowingChannel(),
    Forest(),
    BATCH_NORM_CNN,
    PLAIN_CNN,
    SERIES_CNN,
    SERIES_GRU,
    BATCH_NORM_MLP,
    FineTuned(),
    Mixed(),
    GradientBoosting(),
    SignalBoosting(),
    NearestInShape(),
    Inversion(),
    Parities(),
    WrongLabels(),
)


def adversaries() -> tuple[Adversary, ...]:
    """Every family, in the order of the table: those of EdgeVeil, then a user's own by their entry points.

    The ensemble is made of the others after they have run (``attacks.ensemble``), and is no family of its own.
    """
    return BUILT_IN + plugins.installed(taken=[family.name for family in BUILT_IN])


def meant_for(families: Sequence[Adversary], kind: str) -> tuple[Adversary, ...]:
    """Those that attack samples of this kind at all: what reads a signal in time is none on pictures and vectors."""
    return tuple(family for family in families if kind == "series" or getattr(family, "of", None) != "series")
