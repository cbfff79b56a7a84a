"""A row for each board and artefact: whether it was exported, and what could not be tested here and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgeveil.devices.profiles import ARTEFACTS, INT16, Profile
from edgeveil.edge_runtime.backends import available
from edgeveil.trainer.export import artefact as variants
from edgeveil.trainer.export.artefact import Artefact
from edgeveil.trainer.export.compilers.compiled import Compiled, Key, key_of

EVERYWHERE = tuple(name for name in ARTEFACTS if name != INT16)  # which one converter makes, for a profile that asks


def wanted(profiles: Sequence[Profile], *, all_formats: bool, kind: str) -> list[str]:
    """The artefacts to export, best first: in the boards' order of preference, then all others with ``all_formats``.

    A perturber of that ``kind`` may have fewer of them, or more (``edgeveil.trainer.export.artefact``).
    """
    names = [artefact for profile in profiles for artefact in profile.artefacts]
    return variants.variants_for(kind, list(dict.fromkeys([*names, *(EVERYWHERE if all_formats else ())])))


def rows(
    profiles: Sequence[Profile], made: Sequence[Artefact], compiled: Mapping[Key, Compiled], *, kind: str
) -> list[dict[str, Any]]:
    """One row per board and artefact: ``profile``, ``artefact``, ``status``, ``on_board`` and ``audited``, as text.

    ``compiled`` is the output of each board's compiler. An artefact that no board asked for has a row of its own.
    """
    board_rows = []
    exported = [one.name for one in made]
    for profile in profiles:
        for artefact in profile.artefacts:
            reason = variants.why_not(kind, artefact)
            if exported and reason:
                board_rows.append(_row(profile.name, artefact, f"refused: {reason}", "nothing"))
        for artefact in [name for name in exported if variants.runs_on(name, profile.artefacts)]:
            status = _status(profile, artefact, compiled)
            audited = "the exported file"
            if _accelerator(profile, artefact):
                audited += "; its output on the accelerator is not audited here"
            board_rows.append(_row(profile.name, artefact, status, audited))
        one = _result(profile, compiled)
        if one is not None and one.entries:
            status = f"compiled by {one.by} from {one.source}; no interpreter here can run it"
            status += f"; left to the processor: {', '.join(one.left)}" * bool(one.left)
            board_rows.append(_row(profile.name, one.name, status, f"nothing, until {_audit_of(one)}"))
    requested = [artefact for profile in profiles for artefact in profile.artefacts]
    for artefact in exported:
        if not (profiles and variants.runs_on(artefact, requested)):
            status = f"exported; no board here asks for it; {_runs_here(artefact)}"
            board_rows.append(_row("-", artefact, status, "the exported file"))
    return board_rows


def _row(profile: str, artefact: str, status: str, audited: str) -> dict[str, Any]:
    return {"profile": profile, "artefact": artefact, "status": status, "on_board": "not by export", "audited": audited}


def _result(profile: Profile, compiled: Mapping[Key, Compiled]) -> Compiled | None:
    key = key_of(profile)
    return None if key is None else compiled.get(key)


def _audit_of(one: Compiled) -> str:
    on_board = f"edgeveil audit --on --device {one.device}"
    return on_board if one.golden is None else f"edgeveil audit --simulate by its simulator, or {on_board}"


def _accelerator(profile: Profile, artefact: str) -> str | None:
    return None if artefact == variants.NUMPY else profile.accelerator(variants.base(artefact))


def _status(profile: Profile, artefact: str, compiled: Mapping[Key, Compiled]) -> str:
    accelerator = _accelerator(profile, artefact)
    if accelerator is None:
        return f"exported; {_runs_here(artefact)}"
    if profile.accelerator_path and Path(profile.accelerator_path).exists():
        status = f"exported, not run here on the {accelerator}"
    else:
        status = f"exported, not runnable here: no {accelerator}"
    one = _result(profile, compiled)
    if one is not None and one.source == artefact:
        status += f"; {one.text()}"
    return f"{status}; the file itself {_runs_here(artefact)}"


def _runs_here(artefact: str) -> str:
    backends = available(artefact.split("-")[0])
    return f"runs on this CPU by {backends[0]}" if backends else "has no interpreter installed here"
