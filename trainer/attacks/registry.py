"""A user's own adversaries: named in the entry point group ``edgeveil.adversaries`` of any installed package.

An entry point names a class without arguments, or an instance, that is an ``Adversary``
(``trainer/attacks/protocol.py``); docs/explanation/adversaries.md has an example. Any other object is refused, by its
name, before anything runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Any, get_args

from edgeveil.edge_runtime.errors import BadInput
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
from edgeveil.trainer.attacks.families.nearest import NearestInShape
from edgeveil.trainer.attacks.families.network import SERIES_CNN, SERIES_GRU
from edgeveil.trainer.attacks.families.parities import Parities
from edgeveil.trainer.attacks.families.signal_boosting import SignalBoosting
from edgeveil.trainer.attacks.families.transfer import Transfer
from edgeveil.trainer.attacks.families.wrong_labels import WrongLabels
from edgeveil.trainer.attacks.protocol import Adversary, Kind

GROUP = "edgeveil.adversaries"
METHODS = ("why_not", "fit")


def installed(*, taken: Sequence[str] = ()) -> tuple[Adversary, ...]:
    """Every installed adversary of that group, by the names of their entry points. ``taken`` are names in use.

    Raises ``BadInput`` that names the entry point and the package for one that cannot be loaded or is no adversary.
    """
    names = list(taken)
    loaded = []
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda point: point.name):
        family = _loaded(point)
        if family.name in names:
            raise BadInput(f"{_origin(point)} is named {family.name!r}, as another adversary is: give it another name.")
        names.append(family.name)
        loaded.append(family)
    return tuple(loaded)


def _loaded(point: metadata.EntryPoint) -> Adversary:
    try:
        family = point.load()
        family = family() if isinstance(family, type) else family
    except Exception as error:  # a plugin may raise anything
        raise BadInput(
            f"{_origin(point)} cannot be loaded ({type(error).__name__}: {error}): fix or uninstall it."
        ) from error
    wrong = _defect(family)
    if wrong:
        raise BadInput(f"{_origin(point)} is no adversary: {wrong}. See docs/explanation/adversaries.md.")
    return family


def _defect(family: Any) -> str | None:
    """Why an object is not an ``Adversary``, or None."""
    name, kind, seeded = (getattr(family, key, None) for key in ("name", "kind", "seeded"))
    if not (isinstance(name, str) and name.strip() and "," not in name):
        return f"`name` must be a text without commas; got {name!r}"
    if kind not in get_args(Kind):
        return f"`kind` must be one of {', '.join(get_args(Kind))}; got {kind!r}"
    if not isinstance(seeded, bool):
        return f"`seeded` must be True or False; got {seeded!r}"
    missing = [method for method in METHODS if not callable(getattr(family, method, None))]
    return f"it has no method `{missing[0]}`" if missing else None


def _origin(point: metadata.EntryPoint) -> str:
    of = "" if point.dist is None else f" of the package {point.dist.name}"
    return f"The adversary {point.name!r} ({point.value}){of}"


# The one registry of adversaries, for every kind of perturber. A new attack is one small file and one line here.


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
    return BUILT_IN + installed(taken=[family.name for family in BUILT_IN])


def meant_for(families: Sequence[Adversary], kind: str) -> tuple[Adversary, ...]:
    """Those that attack samples of this kind at all: what reads a signal in time is none on pictures and vectors."""
    return tuple(family for family in families if kind == "series" or getattr(family, "of", None) != "series")
