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
