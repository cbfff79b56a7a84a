"""What each board gets, and what could not be shown here: refused is a result, never a silent skip."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from devices.profiles import ARTEFACTS, Profile
from edge_runtime.backends import available
from trainer.export import kinds
from trainer.export.made import Made

COMPILE_LIMIT_S = 600


def wanted(profiles: Sequence[Profile], *, all_formats: bool, kind: str) -> list[str]:
    """The artefacts to export, best first: in the boards' own order of preference, then the rest if asked for.

    A perturber of that ``kind`` may have fewer of them, or more (``trainer.export.kinds``).
    """
    names = [artefact for profile in profiles for artefact in profile.artefacts]
    return kinds.offered(kind, list(dict.fromkeys([*names, *(ARTEFACTS if all_formats else ())])))


def rows(profiles: Sequence[Profile], made: Sequence[Made], compiled: Path, *, kind: str) -> list[dict[str, Any]]:
    """One row per board and artefact: ``profile``, ``artefact``, ``status``, ``on_board``, and ``audited`` in words.

    What a board's compiler makes goes into the folder ``compiled``, which is made if there is any. An artefact that no
    board asked for has a row of its own.
    """
    found = []
    files = {one.name: one.files() for one in made}
    for profile in profiles:
        for artefact in profile.artefacts:
            reason = kinds.why_not(kind, artefact)
            if files and reason:
                found.append(_row(profile.name, artefact, f"refused: {reason}", "nothing"))
        for artefact in [name for name in files if kinds.runs_on(name, profile.artefacts)]:
            status = _status(profile, artefact, files[artefact], compiled / profile.name)
            audited = "the exported file"
            if _accelerator(profile, artefact):
                audited += "; what the board compiles from it is not audited here"
            found.append(_row(profile.name, artefact, status, audited))
    asked = [artefact for profile in profiles for artefact in profile.artefacts]
    for artefact in files:
        if not (profiles and kinds.runs_on(artefact, asked)):
            status = f"exported; no board here asks for it; {_runs_here(artefact)}"
            found.append(_row("-", artefact, status, "the exported file"))
    return found


def _row(profile: str, artefact: str, status: str, audited: str) -> dict[str, Any]:
    return {"profile": profile, "artefact": artefact, "status": status, "on_board": "not by export", "audited": audited}


def _accelerator(profile: Profile, artefact: str) -> str | None:
    return None if artefact == kinds.NUMPY else profile.accelerator(kinds.base(artefact))


def _status(profile: Profile, artefact: str, files: Mapping[str, bytes], compiled: Path) -> str:
    accelerator = _accelerator(profile, artefact)
    if accelerator is None:
        return f"exported; {_runs_here(artefact)}"
    if profile.accelerator_path and Path(profile.accelerator_path).exists():
        status = f"exported, not run here on the {accelerator}"
    else:
        status = f"exported, not runnable here: no {accelerator}"
    if profile.compiler:
        status += f"; {_compile(profile.compiler, files, compiled)}"
    return f"{status}; the file itself {_runs_here(artefact)}"


def _runs_here(artefact: str) -> str:
    backends = available(artefact.split("-")[0])
    return f"runs on this CPU by {backends[0]}" if backends else "has no interpreter installed here"


def _compile(compiler: str, files: Mapping[str, bytes], folder: Path) -> str:
    program = shutil.which(compiler)
    if program is None:
        return f"exported uncompiled: {compiler} not on PATH"
    folder.mkdir(parents=True)
    for name, data in files.items():
        source = folder / name
        source.write_bytes(data)
        try:
            done = subprocess.run(  # noqa: S603 - a fixed command line, and a program from a profile the user chose
                [program, "-s", "-o", str(folder), str(source)],
                capture_output=True,
                text=True,
                timeout=COMPILE_LIMIT_S,
                check=False,
            )
            failed, said = done.returncode != 0, (done.stderr or done.stdout).strip().splitlines()
        except (OSError, subprocess.TimeoutExpired) as error:
            failed, said = True, [type(error).__name__]
        finally:
            source.unlink()
        if failed:
            shutil.rmtree(folder)
            return f"exported uncompiled: {compiler} failed ({said[-1] if said else 'without a word'})"
    return f"compiled by {compiler}, which no interpreter here can run: it lies in compiled/ and is not packed"
