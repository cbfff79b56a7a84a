"""Vendors' compilers: the interface of one, how they are found, and the call for each board of an export.

A compiler is a class of this folder with a ``name``, which is a profile's ``compiler``; an entry point of the group
``edgeveil.compilers`` adds a user's own.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.device import forms
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.registry import Kind, Registry
from edgeveil.trainer.export.artefact import Artefact
from edgeveil.trainer.export.compilers.compiled import Compiled, Key, key_of
from edgeveil.trainer.export.compilers.quantising import Quantising

COMPILERS = Registry(__package__, key="name", group="edgeveil.compilers", word="compiler")


class Compiler:
    """The interface of a compiler, and the defaults of one.

    ``devices`` are the words of --device that it compiles for (their formats: ``edge_runtime.device``). ``program`` is
    looked for on PATH; one without is a package of the Python that EDGEVEIL_COMPILER_PYTHON names. ``makes_for`` is its
    accelerator, with its article.
    """

    name: str
    devices: tuple[str, ...]
    makes_for: str
    program: str | None = None
    simulator: str | None = None  # what ``runner`` is called, where there is one

    def version(self, _python: Path, /) -> str:
        """The compiler in that Python with its version; raises ``BadInput`` without it. For one without ``program``."""
        raise NotImplementedError

    def compile(self, one: Artefact, device: str, program: Path, ready: Quantising, /) -> Compiled:
        """An artefact compiled for a device by the program or Python at ``program``; says why not where it cannot."""
        raise NotImplementedError

    def runner(
        self,
        _python: Path,
        _device: str,
        _model: bytes,
        _entry: Mapping[str, Any],
        _calibration: Mapping[str, np.ndarray],
        /,
    ) -> Any:
        """What the simulator computes of a model's file, with the manifest's ``entry``."""
        raise NotImplementedError


def everyone() -> list[Kind]:
    """All compilers there are: EdgeVeil's, and those of installed packages."""
    return [*COMPILERS.kinds().values(), *COMPILERS.plugins().values()]


def simulating(artefact: str, device: str) -> Compiler:
    """The compiler with a simulator of that device; raises ``BadInput`` where there is none."""
    known = [kind for kind in everyone() if kind.facts.get("simulator")]
    kind = next((kind for kind in known if device in kind.facts["devices"]), None)
    if kind is None:
        raise BadInput(
            f"An artefact that {' or '.join(kind.name for kind in known)} compiled was expected, since only that has a "
            f"simulator here; got {artefact}. Audit others as they are, or on their board (--on)."
        )
    return kind.load()()


def check_compilers(profiles: Sequence[Profile], python: Path | None) -> None:
    """Raise ``BadInput`` where a board's compiler is none or is not for its accelerator, or ``python`` does not fit.

    ``python`` must have the compiler of one of these boards, in a right version.
    """
    for profile in profiles:
        if (key := key_of(profile)) is not None:
            devices = COMPILERS[key[0]].facts["devices"]
            if key[1] not in devices:
                raise BadInput(f"{profile.name}: {key[0]} compiles for {', '.join(devices)}; its device is {key[1]}.")
    if python is None:
        return
    known = [kind.name for kind in everyone() if kind.facts.get("program") is None]
    wanted = {profile.compiler for profile in profiles} & set(known)
    for name in sorted(filter(None, wanted)):
        COMPILERS[name].load()().version(python)


def compile_for(
    profiles: Sequence[Profile], made: Sequence[Artefact], ready: Quantising, *, python: Path | None = None
) -> dict[Key, Compiled]:
    """The results of these boards' compilers, by compiler and device.

    ``ready`` is what the compilers need that quantise, ``python`` the one that has the compilers that are no program.
    """
    wanted = {key_of(profile) for profile in profiles}
    compiled = {}
    for key in sorted(key for key in wanted if key is not None):
        source = "-".join(forms()[key[1]].source)
        if (one := next((one for one in made if one.name == source), None)) is not None:
            compiled[key] = _compiled(COMPILERS[key[0]].load()(), key[1], one, ready, python)
    return compiled


def _compiled(compiler: Compiler, device: str, one: Artefact, ready: Quantising, python: Path | None) -> Compiled:
    if compiler.program is None:
        place, why = python, f"no Python with {compiler.name} was named (EDGEVEIL_COMPILER_PYTHON)"
    else:
        program = shutil.which(compiler.program)
        place, why = (Path(program) if program else None), f"{compiler.program} not on PATH"
    return Compiled(one.name, device, why=why) if place is None else compiler.compile(one, device, place, ready)
