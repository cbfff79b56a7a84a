"""Build an environment with Home Assistant and its MQTT integration, for the test of what it discovers.

    .venv/bin/python -m scripts.environments.home_assistant

It lies in .venvs/home-assistant, or in the folder EDGEVEIL_VENVS names. Home Assistant needs Python 3.14: one on PATH
or in ~/.pyenv/versions, else that of Debian's next release, unpacked by mmdebstrap into a tree that it runs in (root
alone can do that). No other package of this machine is used, and none is changed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

from edgeveil.edge_runtime.errors import DeviceFailed
from scripts import record
from scripts.environments.pythons import ROOT, interpreter

VERSION = "2026.11.0"
PYTHON = "3.14"
SUITE = "forky"  # of Debian, with that Python
# What Home Assistant would install when it first loads these integrations, at the versions it asks for.
# The page asks for what every service does, so it needs those beside `frontend` too.
INTEGRATIONS = ("mqtt", "hassio", "frontend", "ai_task", "assist_satellite", "camera", "media_player", "stream")
COMPILED = ("pymicro-vad", "pyspeex-noise")  # no wheels; of the voice assistant, which nothing here uses
_NEEDS = """
import json, pathlib, homeassistant
folder, seen, todo = pathlib.Path(homeassistant.__file__).parent, set(), {words}
while todo:
    name = todo.pop()
    facts = json.loads((folder / "components" / name / "manifest.json").read_text())
    seen |= set(facts.get("requirements", []))
    todo += facts.get("dependencies", [])
print("--constraint", folder / "package_constraints.txt", *sorted(seen))
"""
_INSIDE = "/home-assistant"  # of the tree


def folder() -> Path:
    """Where the environment lies, or would."""
    return Path(os.environ.get("EDGEVEIL_VENVS", ROOT / ".venvs")).resolve() / "home-assistant"


def command(place: Path) -> list[str] | None:
    """The words before a Python script that run it in the environment at ``place``; None where there is none.

    In a tree, paths are those of ``scratch``.
    """
    if not (place / "version").is_file() or (place / "version").read_text() != VERSION:
        return None
    tree = place / "tree"
    return ["chroot", str(tree), f"{_INSIDE}/bin/python"] if tree.is_dir() else [str(place / "venv/bin/python")]


def scratch(place: Path) -> tuple[Path, str]:
    """A folder for files that a script in the environment reads: its path here, and its path there."""
    tree = place / "tree"
    here = (tree / "scratch") if tree.is_dir() else (place / "scratch")
    here.mkdir(exist_ok=True)
    return here, "/scratch" if tree.is_dir() else str(here)


def build(place: Path) -> None:
    """Build the environment at ``place`` anew. Raises ``DeviceFailed``."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    python = interpreter(PYTHON)
    inside: list[str] = []
    if python is not None:
        venv = str(place / "venv")
    elif shutil.which("mmdebstrap") and os.geteuid() == 0:
        _unpack(place / "tree")
        python, venv, inside = f"python{PYTHON}", _INSIDE, ["chroot", str(place / "tree")]
    else:
        raise DeviceFailed(
            f"expected Python {PYTHON}, or root and mmdebstrap, which unpack it from Debian {SUITE}: install one of "
            "them, and run this again"
        )
    _run([*inside, python, "-m", "venv", venv])
    pip = [*inside, f"{venv}/bin/python", "-m", "pip", "install", "--quiet", "--prefer-binary"]
    _run([*pip, f"homeassistant=={VERSION}"])
    needs = _run([*inside, f"{venv}/bin/python", "-c", _NEEDS.format(words=list(INTEGRATIONS))])
    _run([*pip, *(one for one in needs.split() if not one.startswith(COMPILED))])
    (place / "version").write_text(VERSION)


def _unpack(tree: Path) -> None:
    packages = f"python{PYTHON}-venv,ca-certificates"
    # A mirror that stands still says so with a date in the past; the signature is checked all the same.
    still = 'Acquire::Check-Valid-Until "false"'
    _run(["mmdebstrap", "--quiet", "--variant=minbase", f"--aptopt={still}", f"--include={packages}", SUITE, str(tree)])
    # pip in the tree goes where pip here goes, and trusts whom it trusts.
    for name in ("resolv.conf", "hosts", "ssl/certs/ca-certificates.crt"):
        shutil.copy(Path("/etc") / name, tree / "etc" / name)


def _run(words: list[str]) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PIP_FIND_LINKS"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise DeviceFailed(f"{words[0]} failed: {done.stderr.strip()[-300:] or done.returncode}")
    return done.stdout


def main() -> None:
    """Build it unless it is there."""
    place = folder()
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "home-assistant.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if command(place) is None:
            build(place)
    print(f"home-assistant: {VERSION} in {place}", file=sys.stderr)


if __name__ == "__main__":
    record.run(main)
