"""Each board's compiler, called for the artefact that its accelerator's file is made of."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.device import EDGETPU, forms
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.export.artefact import Artefact
from edgeveil.trainer.export.compilers import edgetpu, hailo, rockchip
from edgeveil.trainer.export.compilers.compiled import Compiled, Key, key_of
from edgeveil.trainer.export.compilers.quantising import Quantising


def check_python(profiles: Sequence[Profile], python: Path | None) -> None:
    """Raise ``BadInput`` where ``python`` has no rknn-toolkit2 of the right version, or no board of these needs it."""
    if python is None:
        return
    if not any(profile.compiler == rockchip.TOOLKIT for profile in profiles):
        raise BadInput(
            f"--compiler-python is the Python that has {rockchip.TOOLKIT}: name a board with --for that it compiles "
            "for (rockchip-rk3588), or leave it out."
        )
    rockchip.version(python)


def compile_for(
    profiles: Sequence[Profile],
    made: Sequence[Artefact],
    ready: Quantising | None = None,
    *,
    python: Path | None = None,
) -> dict[Key, Compiled]:
    """The results of these boards' compilers, by compiler and device.

    ``ready`` is what the compilers need that quantise (None: those are not called), ``python`` the one with
    rknn-toolkit2.
    """
    wanted = {key_of(profile) for profile in profiles}
    found = {}
    for key in sorted(key for key in wanted if key is not None):
        source = "-".join(forms()[key[1]].source)
        if (one := next((one for one in made if one.name == source), None)) is not None:
            found[key] = _compiled(*key, one, ready, python)
    return found


def _compiled(compiler: str, device: str, one: Artefact, ready: Quantising | None, python: Path | None) -> Compiled:
    if compiler == rockchip.TOOLKIT:
        if python is None or ready is None:
            return Compiled(one.name, device, why=f"no Python with {compiler} was named (--compiler-python)")
        return rockchip.compiled(one, device, python, ready)
    program = shutil.which(compiler)
    if program is None:
        return Compiled(one.name, device, why=f"{compiler} not on PATH")
    if device == EDGETPU:
        return edgetpu.compiled(one, compiler, program)
    if ready is None:
        return Compiled(one.name, device, why=f"{compiler} needs rows to calibrate on")
    return hailo.compiled(one, device, program, ready)
