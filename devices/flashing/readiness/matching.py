"""Which profile a board is: by the model that it reports, its processor, and the accelerator that is plugged in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

from edgeveil.devices.flashing.records import Facts
from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.errors import BadInput


def matching(facts: Facts, known: Mapping[str, Profile], present: Callable[[str], bool]) -> Profile:
    """The one profile of ``known`` that the board is. ``present(path)``: whether that accelerator is there.

    Raises ``BadInput`` where none matches, or several do: then the user says which.
    """
    model = facts.board or "a board that does not say its model"
    fits = [
        profile
        for profile in known.values()
        if profile.architecture == facts.architecture
        and any(fnmatchcase(facts.board or "", pattern) for pattern in profile.models)
    ]
    if not fits:
        raise BadInput(
            f"A board of a shipped profile was expected; this is {model} ({facts.architecture}), and none is for it. "
            "Name the nearest with --for (edgeveil devices list), or write your own (docs/reference/boards.md)."
        )
    accelerated = [p for p in fits if p.accelerator_path is not None and present(p.accelerator_path)]
    left = accelerated or [p for p in fits if p.accelerator_path is None] or fits
    if len({profile.accelerator_path for profile in left}) == 1:
        # Two accelerators under one name, as the Hailos are: the library that is there says which.
        asked = [one for one in left if {backend.device for backend in one.backends} & set(facts.devices)]
        left = asked or left
    if len(left) > 1:
        names = " and ".join(profile.name for profile in left)
        raise BadInput(f"This is {model}, which {names} are for. Name one with --for.")
    return left[0]
