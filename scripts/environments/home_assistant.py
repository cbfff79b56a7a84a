"""Build an environment with Home Assistant and its MQTT integration, for the test of what it discovers.

    .venv/bin/python -m scripts.environments.home_assistant

It lies in .venvs/home-assistant, or in the folder EDGEVEIL_VENVS names. Home Assistant needs Python 3.14, from where
scripts/environments/pythons.py finds it. No other package of this machine is used, and none is changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from edgeveil.edge_runtime.errors import DeviceFailed
from scripts import record
from scripts.environments import pythons

VERSION = "2026.11.0"
PYTHON = "3.14"
# What Home Assistant would install when it first loads these integrations, at the versions it asks for.
# The page asks for what every service does, so it needs those in addition to `frontend`.
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


def folder() -> Path:
    """Where the environment lies, or would."""
    return pythons.folder() / "home-assistant"


def python(place: Path) -> Path | None:
    """The Python of the environment at ``place``; None where there is none."""
    stamp = place / "version"
    return place / "venv/bin/python" if stamp.is_file() and stamp.read_text() == VERSION else None


def build(place: Path) -> None:
    """Build the environment at ``place`` anew. Raises ``DeviceFailed``."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    base = pythons.interpreter(PYTHON)
    if base is None:
        raise DeviceFailed(
            f"expected Python {PYTHON}, or root and mmdebstrap, which unpack it from Debian {pythons.DEBIAN[PYTHON]}: "
            "install one of them, and run this again"
        )
    venv = place / "venv"
    _run([base, "-m", "venv", "--without-pip", str(venv)])
    own = str(venv / "bin/python")
    pip = [sys.executable, "-m", "pip", "--python", own, "install", "--quiet", "--prefer-binary"]
    _run([*pip, f"homeassistant=={VERSION}"])
    needs = _run([own, "-c", _NEEDS.format(words=list(INTEGRATIONS))])
    _run([*pip, *(one for one in needs.split() if not one.startswith(COMPILED))])
    (place / "version").write_text(VERSION)


def _run(words: list[str]) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PIP_FIND_LINKS"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise DeviceFailed(f"{words[0]} failed: {done.stderr.strip()[-300:] or done.returncode}")
    return done.stdout


def main() -> None:
    """Build it unless it is there."""
    place = folder()
    with pythons.alone(place.name):
        if python(place) is None:
            build(place)
    print(f"home-assistant: {VERSION} in {place}", file=sys.stderr)


if __name__ == "__main__":
    record.run(main)
