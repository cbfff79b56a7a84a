"""The matrix of boards, interpreters and cameras: what of each was run, and on what; counted now and in version 0.1.

    .venv/bin/python -m scripts.reproduce.pages.boards.matrix

records docs/results/devices/matrix.json, from the profiles of this checkout and of version 0.1's commit. What ran is
read from the records beside it, or named with the test that runs it. A cell is as good as the weaker of its interpreter
and its camera; no cell was ever run on the board itself.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tomllib

from edgeveil.devices import profiles
from edgeveil.edge_runtime.device import CPU, RK3588
from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.trainer.export.compilers.rockchip import TOOLKIT
from scripts.reproduce import record

RESULT = Path("docs/results/devices/matrix.json")
OLD = "f61a4db6"  # the last commit of 0.1
RUNTIME = "rknn-toolkit-lite2"  # the interpreter of what the toolkit compiles
STATES = ("run here", "simulated", "compiled only", "unchecked")


class Evidence(NamedTuple):
    """What there is: the state, on what, where that is to be seen (a record or a test), and whether 0.1 had it."""

    state: str
    what: str
    by: str
    in_0_1: bool = True


_UNCHECKED = Evidence("unchecked", "its refusals alone", "")
_PYTHONS = Evidence("run here", "real interpreters, x86-64", "tests/edge_runtime/test_pythons.py")
_DELEGATE = "a delegate under libedgetpu's name"
# (interpreter, device), or a camera: what ran it in tests that leave no record. What is in neither was never run.
TESTED = {
    ("tflite-runtime", "cpu"): _PYTHONS,
    ("onnxruntime", "cpu"): _PYTHONS,
    ("openvino", "cpu"): _PYTHONS,
    ("tflite-runtime", "edgetpu"): Evidence("simulated", _DELEGATE, _PYTHONS.by),
    ("ai-edge-litert", "edgetpu"): Evidence(
        "simulated", _DELEGATE, "tests/edge_runtime/bundle/test_edgetpu_artefact.py"
    ),
    ("openvino", "myriad"): Evidence("simulated", "OpenVINO 2022.3.2's HETERO device", _PYTHONS.by),
    "libcamera": Evidence("simulated", "a stand-in for picamera2", "tests/edge_runtime/sources/test_cameras.py"),
    "gst": Evidence(
        "simulated", "a stand-in for nvargus-daemon", "tests/edge_runtime/sources/test_daemon_feed.py", in_0_1=False
    ),
}


def recorded(folder: Path = record.ROOT / RESULT.parent) -> dict[tuple[str, str] | str, Evidence]:
    """As ``TESTED``, of what the records in ``folder`` show; nothing of a record that is not there."""
    found: dict[tuple[str, str] | str, Evidence] = {}
    arm64, camera, network, npu = (
        record.read(folder / name) for name in ("emulated_arm64.json", "vivid.json", "rtsp-board.json", "rk3588.json")
    )
    if arm64 and arm64["printed"]["frames_out"]:
        on = f"emulated {arm64['facts']['architecture']}, x86-64"
        for one in arm64["printed"]["backends"].values():
            found[one["backend"], CPU] = Evidence("run here", on, "emulated_arm64.json")
    if camera and camera["printed"]["frames_out"]:
        what = f"the kernel's test camera ({camera['camera']}) in the virtual board"
        found["camera"] = Evidence("run here", what, "vivid.json")
    if network and network["frames_out"]:
        kind = network["source"].partition(":")[0]
        found[kind] = Evidence("run here", "gst-rtsp-server over TLS", "rtsp-board.json", in_0_1=False)
    if npu and not any("not_compiled" in row for row in npu["rows"]):
        what = f"the simulator of {TOOLKIT} {npu['toolkit']}"
        found[RUNTIME, RK3588] = Evidence("simulated", what, "rk3588.json", in_0_1=False)
    return found


def cells(found: Mapping[str, Mapping[str, Any]], *, old: bool = False) -> Iterator[dict[str, str]]:
    """A cell for each interpreter, device and camera of each profile (a document as in its TOML file)."""
    evidence = TESTED | recorded()
    for name, profile in sorted(found.items()):
        kinds = dict.fromkeys((one["name"], one.get("device", "cpu")) for one in profile["backends"])
        # Where an accelerator is missing, its interpreter runs the model on the processor.
        kinds |= dict.fromkeys(
            (interpreter, "cpu") for interpreter, _ in list(kinds) if interpreter == "tflite-runtime"
        )
        for interpreter, device in kinds:
            for camera in profile.get("camera", {}).get("sources", ["camera:0"]):
                parts = [
                    evidence.get((interpreter, device), _UNCHECKED),
                    evidence.get(camera.partition(":")[0], _UNCHECKED),
                ]
                parts = [_UNCHECKED if old and not one.in_0_1 else one for one in parts]
                state = max((one.state for one in parts), key=STATES.index)
                what = "; ".join(one.what for one in parts)
                cell = {"board": name, "interpreter": interpreter, "device": device, "camera": camera}
                yield {**cell, "state": state, "on": what}


def counts(rows: list[dict[str, str]]) -> dict[str, int]:
    """How many cells are in each state."""
    found = Counter(row["state"] for row in rows)
    return {state: found[state] for state in STATES}


def now() -> list[dict[str, str]]:
    """The cells of the shipped profiles."""
    return list(cells({name: _document(Path(profiles.__file__).parent / f"{name}.toml") for name in profiles.names()}))


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The matrix and its counts, as Markdown."""
    yield "| board | interpreter | device | camera | state | on what |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in document["cells"]:
        yield "| [{board}]({board}.md) | {interpreter} | {device} | `{camera}` | {state} | {on} |".format(**row)
    yield ""
    yield f"| | {' | '.join(STATES)} |"
    yield f"| --- |{' --- |' * len(STATES)}"
    for name, key in (("version 0.1", "counts_0_1"), ("now", "counts")):
        yield f"| {name} | {' | '.join(str(document[key][state]) for state in STATES)} |"


def _document(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


def _old_profiles() -> dict[str, dict[str, Any]]:
    """The profiles of version 0.1, from the checkout's history. Raises ``DeviceFailed`` where that is cut off."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=record.ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DeviceFailed(f"The history of this checkout is needed back to {OLD}: {done.stderr.strip()}.")
        return done.stdout

    names = git("ls-tree", "-r", "--name-only", OLD, "devices/profiles").split()
    return {Path(name).stem: tomllib.loads(git("show", f"{OLD}:{name}")) for name in names if name.endswith(".toml")}


def main() -> int:
    """Count and record."""
    script = record.Script(__file__, __doc__, out=RESULT)
    options = script.parse_args()
    rows = now()
    document = {
        "what": "board, interpreter and camera: what was run, and on what",
        "counts_0_1": counts(list(cells(_old_profiles(), old=True))),
        "counts": counts(rows),
        "cells": rows,
    }
    record.write(options.out, script.made_by(options), document)
    print("\n".join(lines(document)))
    return 0


if __name__ == "__main__":
    record.run(main)
