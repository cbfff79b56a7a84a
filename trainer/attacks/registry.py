"""All adversaries: one class a family in trainer/attacks/families, and a user's own by an entry point.

An entry point of the group ``edgeveil.attacks`` (or ``edgeveil.adversaries``, its former name) names a class without
arguments that is an ``Adversary`` (``trainer/attacks/protocol.py``); docs/explanation/adversaries.md has an example.
Any other object is refused, by its name, before anything runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, get_args

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.registry import Kind as Found
from edgeveil.edge_runtime.registry import Registry, entry_points
from edgeveil.trainer.attacks.protocol import Adversary, Kind

GROUPS = ("edgeveil.attacks", "edgeveil.adversaries")
METHODS = ("why_not", "fit")
FAMILIES = tuple(
    Registry(__package__ + ".families", key="name", group=group, word="family of attacks") for group in GROUPS
)


def adversaries() -> tuple[Adversary, ...]:
    """Every family, in the order of the table: those of EdgeVeil, then a user's own by name.

    The ensemble is made of the others after they have run (``attacks.ensemble``), and is no family of its own. Raises
    ``BadInput`` that names the entry point for one that cannot be loaded, is no adversary or has another's name.
    """
    ours = sorted(FAMILIES[0].kinds().values(), key=lambda kind: kind.facts.get("order", sys.maxsize))
    return (*(kind.load()() for kind in ours), *_installed())


def meant_for(families: Sequence[Adversary], kind: str) -> tuple[Adversary, ...]:
    """Those that attack samples of this kind at all: what reads a signal in time is none on pictures and vectors."""
    return tuple(family for family in families if kind == "series" or getattr(family, "of", None) != "series")


def without_d_z(families: Sequence[Adversary]) -> tuple[Adversary, ...]:
    """Those that need no classifier that the perturber was trained against: of pairs and publications there is none."""
    return tuple(family for family in families if not getattr(family, "needs_d_z", False))


def _installed() -> list[Adversary]:
    kinds = {name: kind for registry in FAMILIES for name, kind in registry.plugins().items()}
    registered = {f"{kind.module}:{kind.attribute}" for kind in kinds.values()}
    for point in (point for group in GROUPS for point in entry_points(group)):
        if point[1] not in registered:  # a registry keeps one of each name, and ours first
            raise BadInput(f"The adversary {point[0]!r} ({point[1]}) is named as another adversary is: rename it.")
    return [_loaded(kinds[name]) for name in sorted(kinds, key=str)]


def _loaded(kind: Found) -> Adversary:
    place = f"{kind.name!r} ({kind.module}:{kind.attribute})"
    try:
        family = kind.load()()
    except Exception as error:  # a plugin may raise anything
        raise BadInput(
            f"The adversary {place} cannot be loaded ({type(error).__name__}: {error}): fix or uninstall it."
        ) from error
    wrong = _defect(family)
    if wrong:
        raise BadInput(f"The adversary {place} is no adversary: {wrong}. See docs/explanation/adversaries.md.")
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
