"""A model that a signing key brought harms nothing: it is refused, or the limits of the inside end it, and none leaves.

Each runs in the real service as its artefact; the service says what came of it, and no frame has left.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgeveil.edge_runtime.backends import onnx_file
from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.releases import trial
from tests.hostile_bundles import onnx_models, tflite_models
from tests.support import bundles, one_artefact
from tests.support.checkout import PACKAGES, ROOT

LIMIT_BYTES = 2**30
# In the inside, less memory and time than a board gives it: the limits are what is tried here, not their size.
CHILD = """
import sys; sys.path[:0] = [{root!r}]
from edgeveil.edge_runtime import machine
machine.process_limit_bytes = lambda: {limit}
from edgeveil.edge_runtime.inside import process
from edgeveil.edge_runtime.sandbox import hardening
process.OPEN_S = 4
{first}
sys.exit(process.main(sys.argv[1:]))
"""
SERVICE = """
import sys; sys.path[:0] = [{root!r}]
from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.outside import process_table, supervisor
config.needs_service = lambda settings: True
process_table.command = lambda module: [sys.executable, "-c", {child!r}]
sys.exit(main({words!r}))
"""
REFUSED, LOOP, CRASH, DROPPED = "can run", "by its watchdog", "by signal 11", "its input was dropped"
# What is not refused when it is opened: what ends it
ENDED_BY = {
    "tflite endless_while": LOOP,
    "tflite subgraph_that_runs_itself": CRASH,
    "tflite offset_that_wraps_around": CRASH,
    "tflite size_known_at_run_time": DROPPED,
    "tflite data_in_another_file": DROPPED,
    "onnx endless_loop": LOOP,
    "onnx giant_constant": DROPPED,
    "onnx constant_beyond_the_limit": DROPPED,
    "onnx constant_whose_size_overflows": DROPPED,
    "onnx size_known_at_run_time": DROPPED,
    "onnx index_behind_the_end": DROPPED,
}
LATER = "endless_loop_of_one_picture"  # harmless until that picture comes
MODULES = {"tflite": tflite_models, "onnx": onnx_models}
MODELS = [
    f"{form} {name}"
    for form, module in MODULES.items()
    for name, value in vars(module).items()
    if callable(value) and getattr(value, "__module__", "") == module.__name__ and name[0] in "abcdefghijklmnopqrstuvwxyz"
    if name not in ("good", LATER)
]


def run(model, *, first="", limit=LIMIT_BYTES, pictures=3, sample=3, more=()):
    """The service: exit code, frames that left, what it said, seconds, and the most memory that a child had (KiB)."""
    form, kind = model.split(" ")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        made = bundles.make_bundle(folder / "bundle", example=one_artefact.example(form, getattr(MODULES[form], kind)()))
        np.savez(folder / "in.npz", x=np.full((pictures, 8, 8, 1), sample, np.uint8))
        child = CHILD.format(root=str(ROOT), limit=limit, first=first)
        words = ["run", str(made.path), "--trust", str(made.trust), "--source", f"npz:{name}/in.npz"]
        words += ["--sink", f"npz:{name}/out.npz", "--health", "off", "--hang-after", "1", "--restarts", "0"]
        code = SERVICE.format(root=str(ROOT), child=child, words=[*words, "--log", "json", "--json", *more])
        code = f"import resource\ntry:\n    exec({code!r})\nfinally:\n    sys.stderr.write('peak %d' % " + (
            "resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", "import sys\n" + code],
            env={**os.environ, "PYTHONPATH": str(PACKAGES)},
            cwd=name,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        out = folder / "out.npz"
        frames = len(np.load(out)["x"]) if out.exists() else 0
        said, _, peak = done.stderr.rpartition("peak ")
        return done.returncode, frames, said, time.monotonic() - begun, int(peak)


@pytest.mark.parametrize("form", MODULES)
def test_what_they_are_made_from_runs(form):
    code, frames, said, _, _ = run(f"{form} good")
    assert (code, frames) == (0, 3), said


@pytest.mark.parametrize("model", MODELS)
def test_a_hostile_model_is_refused_or_ended_and_nothing_leaves(model):
    code, frames, said, seconds, peak = run(model)
    assert frames == 0
    assert "Traceback" not in said
    assert ENDED_BY.get(model, REFUSED) in said, said
    assert code == (2 if model not in ENDED_BY else 4), said
    assert seconds < 40
    assert peak * 1024 < LIMIT_BYTES


def test_a_loop_that_one_picture_begins_ends_there_and_that_picture_does_not_leave():
    model = f"onnx {LATER}"
    code, frames, said, _, _ = run(model)
    assert (code, frames) == (0, 3), said
    code, frames, said, _, _ = run(model, sample=16)
    assert (code, frames) == (4, 0)
    assert LOOP in said
