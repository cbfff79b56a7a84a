"""A model that a signing key brought harms nothing: it is refused, or the limits of the inside end it, and none leaves.

Each runs in the real service as its artefact; the service says what came of it, and no frame has left.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgeveil.edge_runtime import device
from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.errors import EdgeVeilError
from edgeveil.edge_runtime.manifest import model_lint
from edgeveil.edge_runtime.releases import confinement, runtimes
from edgeveil.edge_runtime.releases.store import BUNDLE
from tests.hostile_bundles import one_artefact, onnx_models, tflite_models
from tests.support import bundles
from tests.support.broker_services import file_arguments
from tests.support.checkout import PACKAGES, ROOT
from tests.support.once import nightly_but

LIMIT_BYTES = 2**30
# In the inside, less memory and time than a board gives it: the limits are what is tried here, not their size.
CHILD = """
import sys; sys.path[:0] = [{root!r}]
from edgeveil.edge_runtime import machine
machine.process_limit_bytes = lambda: {limit}
from edgeveil.edge_runtime.inside import process
from edgeveil.edge_runtime.sandbox import hardening
from edgeveil.edge_runtime import device
device.OPEN_S = 5
{first}
sys.exit(process.main(sys.argv[1:]))
"""
SERVICE = """
import sys; sys.path[:0] = [{root!r}]
from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.outside import process_table
from edgeveil.edge_runtime.outside import supervisor
config.needs_service = lambda settings: True
supervisor.START_S = {start_s}
from edgeveil.edge_runtime import device
device.OPEN_S = 5
process_table.command = lambda module: [sys.executable, "-c", {child!r}]
code = main({words!r})
import resource
sys.stderr.write("peak %d" % resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
REFUSED, LOOP, CRASH, DROPPED = "can run here", "by its watchdog", "by signal 11", "its input was dropped"
LINTED = "may not be used"  # model_lint, before an interpreter gets it
ELSEWHERE = "its weights are in another file"
# What is not refused when it is opened: what ends it
ENDED_BY = {
    "tflite offset_that_wraps_around": CRASH,
    "tflite size_known_at_run_time": DROPPED,
    "onnx endless_loop": LOOP,
    "onnx giant_constant": DROPPED,
    "onnx constant_beyond_the_limit": DROPPED,
    "onnx constant_whose_size_overflows": DROPPED,
    "onnx size_known_at_run_time": DROPPED,
    "onnx index_behind_the_end": DROPPED,
}
BY_LINT = {
    *("tflite endless_while", "tflite subgraph_that_runs_itself", "tflite main_that_runs_itself"),
    *("tflite operation_of_its_own", "tflite operation_that_writes_files", "tflite root_behind_the_end"),
    *("tflite half_a_file", "onnx data_elsewhere_in_a_function", "onnx function_that_calls_itself"),
    *("onnx functions_that_call_each_other", "onnx graphs_in_graphs", "onnx operation_of_its_own"),
    *("onnx operation_that_runs_python", "onnx onnx_runtimes_own_format", "onnx length_behind_the_end"),
    *("onnx half_a_file", "tflite tensor_that_is_not_there", "tflite tensor_before_the_first"),
    *("tflite output_that_is_not_there", "tflite buffer_that_is_not_there", "tflite data_in_another_file"),
}
ELSEWHERE_IN = {
    *("onnx data_in_the_systems_files", "onnx data_in_a_folder_above", "onnx data_in_a_file_beside"),
    "onnx data_elsewhere_of_a_constant_node",
}
# Refused by the interpreter, or too large for it, as others that the service gets by day.
ALIKE = {
    *("tflite constant_beyond_the_limit", "tflite subgraph_that_is_not_there", "tflite tensor_that_is_not_there"),
    *("tflite operation_that_is_not_there", "tflite constant_whose_size_overflows", "tflite giant_input"),
    *("tflite output_that_is_not_there", "tflite buffer_that_is_not_there", "tflite constant_that_is_short"),
    *("onnx giant_sparse_weights", "onnx giant_weights_that_are_not_there", "onnx constant_whose_size_overflows"),
    *("tflite giant_constant", "onnx giant_constant", "onnx index_behind_the_end"),
}
LATER = "endless_loop_of_one_picture"  # harmless until that picture comes
MODULES = {"tflite": tflite_models, "onnx": onnx_models}
MODELS = [
    f"{form} {name}"
    for form, module in MODULES.items()
    for name, value in vars(module).items()
    if getattr(value, "__module__", "") == module.__name__ and name[0].islower() and name not in ("good", LATER)
]
NO_INTERPRETER_GETS = sorted(BY_LINT | ELSEWHERE_IN)


def reason_of(model):
    return LINTED if model in BY_LINT else ELSEWHERE if model in ELSEWHERE_IN else ENDED_BY.get(model, REFUSED)


def run(model, *, first="", sample=3, start_s=30):
    """The service: exit code, frames that left, what it said, seconds, and the most memory that a child had (KiB)."""
    form, kind = model.split(" ")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        example = one_artefact.example(form, getattr(MODULES[form], kind)())
        made = bundles.make_bundle(folder / "bundle", example=example)
        np.savez(folder / "in.npz", x=np.full((3, 8, 8, 1), sample, np.uint8))
        child = CHILD.format(root=str(ROOT), limit=LIMIT_BYTES, first=first)
        words = ["run", str(made.path), "--trust", str(made.trust), "--source", f"npz:{name}/in.npz"]
        words += ["--sink", f"npz:{name}/out.npz", "--health", "off", "--hang-after", "1", "--restarts", "0"]
        words += ["--log", "json", "--json"]
        code = SERVICE.format(root=str(ROOT), child=child, words=words, start_s=start_s)
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", code],
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


@pytest.mark.parametrize("model", NO_INTERPRETER_GETS)
def test_what_no_interpreter_gets_is_refused_before(model, tmp_path, capfd):
    """In this process: it is not opened."""
    form, kind = model.split(" ")
    made = bundles.make_bundle(tmp_path, example=one_artefact.example(form, getattr(MODULES[form], kind)()))
    np.savez(tmp_path / "in.npz", x=np.full((3, 8, 8, 1), 3, np.uint8))
    code = main(file_arguments(made, f"npz:{tmp_path}/in.npz", f"npz:{tmp_path}/out.npz"))
    said = capfd.readouterr().err
    assert (code, reason_of(model) in said) == (2, True), said
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize(
    "model",
    nightly_but(
        MODELS,
        *(model for model in MODELS if model not in {*NO_INTERPRETER_GETS, *ALIKE}),
        *("tflite endless_while", "onnx functions_that_call_each_other", "onnx data_in_the_systems_files"),
    ),
)
def test_a_hostile_model_is_refused_or_ended_and_nothing_leaves(model):
    code, frames, said, seconds, peak = run(model)
    assert frames == 0
    assert "Traceback" not in said
    assert reason_of(model) in said, said
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


@pytest.mark.nightly
def test_without_its_limit_of_memory_a_model_has_what_it_asks_for():
    first = "hardening.limit_memory = lambda size_bytes: None"
    *_, peak = run("onnx constant_beyond_the_limit", first=first)
    assert peak * 1024 > 1.5 * LIMIT_BYTES


def test_an_inside_that_does_not_end_itself_is_ended_from_without():
    first = "process.Inside._put_off = lambda self, seconds: None"
    code, frames, said, _, _ = run("onnx endless_loop", first=first, start_s=1)
    assert (code, frames) == (4, 0)
    assert "the inside hung; it is killed" in said


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        pytest.param("tflite endless_while", LINTED, marks=pytest.mark.nightly),
        pytest.param("onnx endless_loop", "took more than 6 s", marks=pytest.mark.nightly),
        ("tflite offset_that_wraps_around", "ended with code (139|-11)"),
        ("onnx constant_beyond_the_limit", "its input was dropped"),
        pytest.param("tflite giant_constant", "can run here", marks=pytest.mark.nightly),
        pytest.param("onnx data_in_the_systems_files", ELSEWHERE, marks=pytest.mark.nightly),
    ],
)
def test_the_trial_of_a_hostile_model_fails(model, problem, monkeypatch):
    form, kind = model.split(" ")
    monkeypatch.setattr(runtimes, "TRIAL_FRAMES_S", 3)
    monkeypatch.setattr(device, "OPEN_S", 3)
    monkeypatch.setattr(confinement, "process_limit_bytes", lambda: LIMIT_BYTES)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        example = one_artefact.example(form, getattr(MODULES[form], kind)())
        made = bundles.make_bundle(root, example=example, name=BUNDLE)
        before = sorted(root.rglob("*"))
        with pytest.raises(EdgeVeilError, match=problem):  # of two rules, before anything is tried
            runtimes.trial(name)(name, read_bundle(made.path, bundles.trust()))
        assert sorted(root.rglob("*")) == before


def test_every_place_of_a_tensor_in_an_onnx_file_is_looked_into():
    """By the format's own description, so that a later version's new place is noticed."""
    kinds = {name: name.title() + "Proto" for name in model_lint._INNER}
    kinds |= {"training": "TrainingInfoProto", "sparse": "SparseTensorProto"}
    names = {kind: name for name, kind in kinds.items()}

    def holds_tensors(kind, seen=()):
        inner = [f.message_type.name for f in getattr(onnx, kind).DESCRIPTOR.fields if f.message_type is not None]
        return kind == "TensorProto" or any(
            holds_tensors(one, (*seen, kind)) for one in inner if one not in seen and hasattr(onnx, one)
        )

    for name, kind in kinds.items():
        fields = getattr(onnx, kind).DESCRIPTOR.fields
        expected = {
            f.number: names[f.message_type.name]
            for f in fields
            if f.message_type is not None and f.message_type.name in names and holds_tensors(f.message_type.name)
        }
        assert model_lint._INNER[name] == expected, kind
    numbers = onnx.TensorProto.DESCRIPTOR.fields_by_name
    assert numbers["external_data"].number == model_lint._EXTERNAL_DATA
    assert numbers["data_location"].number == model_lint._DATA_LOCATION


def test_an_onnx_file_is_read_as_protocol_buffers_read_it():
    assert [model_lint.problems(data, "onnx") for data in (onnx_models.good(), b"")] == [[], []]
    long_key = onnx_models.data_in_the_systems_files().replace(b"\x70\x01", b"\xf0\x80\x80\x80\x10\x01")
    # The same number in 35 bits, of which C++ reads 32; the lengths around it are too short now.
    assert model_lint.problems(long_key, "onnx")
    for data in (b"\x3b", b"\x3a\xff", b"\x3d\x01", b"\xff" * 11):
        assert [one.text for one in model_lint.problems(data, "onnx")] == ["it is damaged, or no ONNX model"]
