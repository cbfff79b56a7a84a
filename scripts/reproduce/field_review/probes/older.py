"""What the probes of version 0.1 share. Like them, it runs with 0.1's packages on the path, and without today's."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomllib

from devices import profiles, service
from edge_runtime.errors import EdgeVeilError

TREE = Path(service.__file__).parents[1]
sys.path[:0] = [str(TREE / "tests"), str(TREE / "tests" / "devices")]
ROOT, SINK = "/opt/edgeveil", "mqtts://broker/hall"


def answer(call: Callable[[], Any]) -> str:
    """What a call of 0.1 gives, or the sentence that it raises with its exit code."""
    try:
        return str(call())
    except EdgeVeilError as error:
        return f"exit code {error.exit_code}: {error}"


def case(name: str, **facts: Any) -> dict[str, Any]:
    """One board and bundle of the planner's tests of 0.1, with these facts of the board in place of its own."""
    found = tomllib.loads((TREE / "tests/devices/plans" / f"{name}.toml").read_text())
    found["facts"] |= facts
    return found


def planner() -> Any:
    """The module of 0.1's tests that makes a plan of such a case."""
    return importlib.import_module("test_plan")


def planned(case: dict[str, Any]) -> str:
    """The plan of such a case on one line, or why 0.1 refuses it."""

    def text() -> str:
        made = planner().planned(case)
        notes = "; ".join(made.notes) or "none"
        return f"{made.artefact} on {made.device}, steps {', '.join(one.kind for one in made.steps)}, notes: {notes}"

    return answer(text)


def service_files(profile: str, source: str = "camera:0", device: str = "cpu") -> dict[str, str]:
    """The files of a service on that profile's board: path and text."""
    board = profiles.load(profile)
    made = service.files(
        ROOT,
        source,
        [SINK],
        board.accelerator_path,
        device=device,
        accelerator_devices=board.accelerator_devices,
        accelerator_group=board.accelerator_group,
        service=board.service,
        camera=board.camera,
    )
    return {path: data.decode() for path, data in made.items()}


def lines(files: dict[str, str], word: str) -> str:
    """The lines of these files with a word, each once; "none"."""
    found = [line for text in files.values() for line in text.splitlines() if word in line]
    return ", ".join(dict.fromkeys(found)) or "none"


def main() -> None:
    """Run the probe that the command line names, module and function, in the folder that it names; print its answer."""
    module, name, folder = sys.argv[1:4]
    print(" ".join(getattr(importlib.import_module(module), name)(Path(folder)).split()))
