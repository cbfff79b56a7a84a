"""Accelerators: asked for by name, never in silence something else in their place.

The Edge TPU's path is run with a delegate of TFLite's own kind under libedgetpu's name (``edge_tpu``), OpenVINO's with
the devices that its wheels bring besides the processor; MYRIAD and CUDA are in none here, and their refusal is real.
"""

from __future__ import annotations

import copy
import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import bundles
import edge_tpu
import numpy as np
import pytest
import tiny_models
from edge_tpu import COMPILED

from edge_runtime import Perturber
from edge_runtime.backends import open_backend
from edge_runtime.backends.device import NoDevice
from edge_runtime.backends.onnx import ran_where
from edge_runtime.errors import BadInput, BundleRefused, DeviceFailed
from edge_runtime.lookup import numbers
from edge_runtime.manifest import PRIVACY_FILES, PRIVACY_MEMBER, check_manifest
from edge_runtime.policy import Demand, Policy
from edge_runtime.trust import Trust
from trainer.audit import column
from trainer.audit.perturbing import Subject
from trainer.export.zipapp import build_zipapp

ROOT = Path(__file__).parents[2]
needs_cc = pytest.mark.skipif(edge_tpu.available() is None, reason="NO C COMPILER HERE: no delegate was loaded")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A folder with a libedgetpu.so.1."""
    return edge_tpu.build(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def made(tiny, tmp_path_factory):
    """The tiny bundle, and in it what a compiler made of its int8 artefact: every byte complemented."""
    return edge_tpu.bundle(tiny, tmp_path_factory.mktemp("compiled"))


def edge(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "edge_runtime", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **{name: str(value) for name, value in environment.items()}},
        capture_output=True,
        text=True,
        check=False,
    )


def refused(done, *, code):
    """The one sentence that it ended with."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    *others, last = done.stderr.splitlines()
    assert last.startswith("error: ")
    assert not any(line.startswith("error") for line in others)
    return last


@needs_cc
def test_frames_go_through_the_edge_tpu_that_was_asked_for(made, library, tmp_path):
    x = np.random.default_rng(3).integers(0, 256, (5, *tiny_models.SHAPE)).astype(np.uint8)
    np.savez(tmp_path / "in.npz", x=x)
    words = ["run", made.path, "--trust", made.trust, "--device", "edgetpu", "--json"]
    words += ["--source", f"npz:{tmp_path}/in.npz", "--sink", f"npz:{tmp_path}/out.npz"]
    done = edge(*words, LD_LIBRARY_PATH=library)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["artefact"], document["device"], document["audited"]) == (COMPILED, "edgetpu", False)
    out = np.load(tmp_path / "out.npz")["x"].astype(int)
    assert np.abs(out - (255 - x.astype(int))).max() <= 1


@needs_cc
def test_a_service_says_what_runs_it(made, library, tmp_path):
    np.savez(tmp_path / "in.npz", x=np.zeros((2, *tiny_models.SHAPE), np.uint8))
    words = ["run", made.path, "--trust", made.trust, "--device", "edgetpu", "--json", "--log", "json"]
    words += ["--source", f"npz:{tmp_path}/in.npz", "--sink", "preview:0", "--health", "off"]
    done = edge(*words, LD_LIBRARY_PATH=library)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["device"] == "edgetpu"
    ready = next(json.loads(line) for line in done.stderr.splitlines() if '"ready"' in line)
    assert ready["message"].startswith(COMPILED)
    assert ready["message"].endswith(", on edgetpu")


@needs_cc
def test_what_the_compiler_left_to_the_processor_is_counted_there(made, library):
    ctypes.CDLL(str(library / edge_tpu.LIBRARY))  # from now on its name finds it, as an installed one's does
    entry = made.manifest["models"]["generator"]["artefacts"][COMPILED]
    source = made.members[made.manifest["models"]["generator"]["artefacts"]["tflite-int8"]["file"]]
    feeds = {"image": np.linspace(0, 1, 144, dtype=np.float32).reshape(1, 12, 12, 1), "noise": np.zeros((1, 4), "f4")}
    for rest, device, kernels in ((False, "Edge TPU", 1), (True, "Edge TPU+CPU", 2)):
        backend = open_backend("tflite", edge_tpu.compiled(source, rest=rest), entry, device="edgetpu")
        found = backend.placement()
        assert found["device"] == device
        assert found["kernels"]["Edge TPU"] == 1
        assert sum(found["kernels"].values()) == kernels
        out = numbers(backend.run(feeds)["output"])
        assert np.abs(out - (1 - feeds["image"]) * 255 / 256).max() < 0.01
        backend.close()


@needs_cc
@pytest.mark.parametrize(
    ("said", "match"),
    [
        ("missing", "cannot be loaded"),
        ("other", "is no delegate of TFLite"),
        ("absent", "opened no Edge TPU"),
    ],
)
def test_without_an_edge_tpu_nothing_runs(made, library, tmp_path, said, match):
    folder = {"missing": tmp_path, "absent": library}.get(said) or edge_tpu.build(tmp_path, delegate=False)
    words = ["verify", made.path, "--trust", made.trust, "--device", "edgetpu"]
    line = refused(edge(*words, LD_LIBRARY_PATH=folder, EDGE_TPU=said), code=4)
    assert match in line
    assert "--device cpu" in line


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"artefact": "tflite-int8", "device": "edgetpu"}, BadInput, "not compiled for the Edge TPU"),
        ({"artefact": COMPILED}, BadInput, "runs nowhere else"),
        ({"artefact": COMPILED, "device": "myriad"}, BadInput, "runs nowhere else"),
        ({"artefact": "tflite-int8", "device": "cuda"}, BadInput, "does not run tflite artefacts"),
        ({"device": "cuda", "backend": "tflite-runtime"}, BadInput, "for the backend 'tflite-runtime'"),
        ({"device": "cuda"}, NoDevice, "built without it"),
        ({"device": "tensorrt,cpu"}, NoDevice, "built without it"),
        ({"device": "gpu"}, BadInput, "expected the device cpu | edgetpu"),
        ({"device": "openvino:"}, BadInput, "expected the device"),
        ({"device": "edgetpu,cpu"}, BadInput, "expected the device"),
    ],
)
def test_what_cannot_be_is_said_and_not_run_elsewhere(made, options, error, match):
    with pytest.raises(error) as caught:
        Perturber.open(made.path, trust=made.trust, **options)
    assert match in str(caught.value)
    assert caught.value.exit_code == (4 if error is NoDevice else 2)


def test_the_processor_is_the_default_and_takes_what_is_for_it(made):
    with Perturber.open(made.path, trust=made.trust) as opened:
        assert (opened.artefact, opened.info["device"]) == ("tflite-int8", "cpu")


def test_no_models_need_no_device(tmp_path):
    plain = bundles.make_bundle(tmp_path)
    with pytest.raises(BadInput, match="leave --device out"):
        Perturber.open(plain.path, trust=plain.trust, device="cuda")
    other = bundles.make_bundle(tmp_path / "b", example=bundles.artefact_example())
    with pytest.raises(BadInput, match="edgetpu_compiler on PATH"):
        Perturber.open(other.path, trust=other.trust, device="edgetpu")


class Elsewhere:
    """An onnxruntime that says it has CUDA, and opens on the processor: what it does where a library is missing."""

    def __init__(self, *_, providers, enable_fallback):
        self.asked = providers

    def get_providers(self):
        return ["CPUExecutionProvider"]


def test_a_gpu_that_onnxruntime_gave_up_in_silence_is_refused(tiny, monkeypatch):
    import onnxruntime

    there = ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: there)
    monkeypatch.setattr(onnxruntime, "InferenceSession", Elsewhere)
    for device in ("cuda", "cuda,cpu", "tensorrt"):
        with pytest.raises(NoDevice, match="opened CPUExecutionProvider in its place"):
            tiny_models.backend(tiny.manifest, tiny.members, "onnx-float32", device=device)


def test_operations_on_the_processor_are_refused_unless_they_were_allowed(tiny, monkeypatch):
    """A session that is really on the CPU, and passes for the GPU's: its own profile tells."""
    from edge_runtime.backends import onnx

    def session(model, options, device, precision):
        return onnx.onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    monkeypatch.setattr(onnx, "_on_gpu", session)
    with pytest.raises(NoDevice, match=r"operations would run on the processor \(.*Conv.*--device cuda,cpu"):
        tiny_models.backend(tiny.manifest, tiny.members, "onnx-float32", device="cuda")
    found = tiny_models.backend(tiny.manifest, tiny.members, "onnx-float32", device="cuda,cpu").placement()
    assert found["device"] == "CPU"
    assert found["kernels"]["CPUExecutionProvider"] > 3


def test_a_profile_is_read_by_operation():
    kernel = {"cat": "Node", "args": {"provider": "CUDAExecutionProvider", "op_name": "Conv"}}
    events = [{"cat": "Session", "name": "model_run", "args": {}}, {**kernel, "name": "a_kernel_time"}]
    events += [{**kernel, "name": "a_fence_before"}, {**kernel, "name": "a_kernel_time"}]
    events += [
        {"cat": "Node", "name": "b_kernel_time", "args": {"provider": "CPUExecutionProvider", "op_name": "Tanh"}}
    ]
    assert ran_where(events) == ({"CUDAExecutionProvider": 1, "CPUExecutionProvider": 1}, ["Tanh"])


def test_the_self_test_is_of_the_device_that_runs(made, monkeypatch):
    """What comes out wrong on the accelerator stops there, whatever the processor would have made of it."""
    from edge_runtime.backends import tflite

    def processor(library, options):
        source = made.manifest["models"]["generator"]["artefacts"]["tflite-int8"]
        interpreter = library.Interpreter(**dict(options, model_content=made.members[source["file"]]))
        interpreter.allocate_tensors()
        return interpreter

    monkeypatch.setattr(tflite, "_on_edge_tpu", processor)
    with pytest.raises(DeviceFailed, match=f"self-test of {COMPILED} failed.*or device"):
        Perturber.open(made.path, trust=made.trust, device="edgetpu")


def _say(**facts):
    return lambda artefact: artefact["compiled"].update(facts)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda artefact: artefact.pop("compiled"), "missing-key"),
        (lambda artefact: artefact["compiled"].pop("by"), "missing-key"),
        (_say(more=1), "unknown-key"),
        ({"for": "npu"}, "bad-value"),
        ({"from": "tflite-float32"}, "artefact-mismatch"),
        ({"from": COMPILED}, "artefact-mismatch"),
        ({"sha256": "0" * 64}, "artefact-hash"),
        ({"by": 16}, "wrong-type"),
        (lambda artefact: artefact["tolerance"].update(max_abs=99.0), "artefact-mismatch"),
        (lambda artefact: artefact["outputs"][0].update(scale=0.5), "artefact-mismatch"),
        (lambda artefact: artefact.update(precision="float32"), "artefact-mismatch"),
    ],
)
def test_a_manifest_says_what_a_compiled_file_is_of_or_is_refused(made, change, reason):
    manifest = copy.deepcopy(made.manifest)
    check_manifest(manifest)
    artefact = manifest["models"]["generator"]["artefacts"][COMPILED]
    artefact["compiled"].update(change) if isinstance(change, dict) else change(artefact)
    with pytest.raises(BundleRefused) as caught:
        check_manifest(manifest)
    assert caught.value.reason == reason


def test_the_source_of_a_compiled_file_is_there(made):
    manifest = copy.deepcopy(made.manifest)
    del manifest["models"]["generator"]["artefacts"]["tflite-int8"]
    with pytest.raises(BundleRefused, match="no model has such a variant to compile"):
        check_manifest(manifest)


def audited(made, folder, *parts):
    """The bundle with an audit for each (artefact, device or None for a workstation, accuracy of the best attack)."""

    def change(manifest, members):
        documents = []
        for artefact, device, accuracy in parts:
            one = bundles.audit_document(manifest, artefact, members)
            one["worst_adaptive"]["accuracy"] = accuracy
            documents.append(one if device is None else {**one, "on_board": {"device": device}})
        main, *others = documents
        members[PRIVACY_MEMBER] = json.dumps({**main, "others": others}).encode()
        members[PRIVACY_FILES["card"]], members[PRIVACY_FILES["page"]] = b"{}", b"<!doctype html>"
        spoken = {
            key: {name: v for one in documents for name, v in one[key].items()} for key in ("speaks_of", "pipeline")
        }
        manifest["privacy"] = {**PRIVACY_FILES, **spoken}

    example = copy.deepcopy(made.manifest), dict(made.members)
    del example[0]["members"]
    return bundles.make_bundle(folder, example=example, change=change)


@needs_cc
def test_an_audit_speaks_of_the_device_it_was_made_on(made, library, tmp_path, capfd):
    ctypes.CDLL(str(library / edge_tpu.LIBRARY))
    here = audited(made, tmp_path / "here", ("tflite-int8", None, 0.6))
    there = audited(made, tmp_path / "there", ("tflite-int8", None, 0.6), (COMPILED, "edgetpu", 0.7))
    for one, device, expected in ((here, "cpu", True), (here, "edgetpu", False), (there, "edgetpu", True)):
        with Perturber.open(one.path, trust=one.trust, device=device) as opened:
            assert opened.info["audited"] is expected
        assert ("nobody has measured what leaks when " in capfd.readouterr().err) is not expected
    elsewhere = audited(made, tmp_path / "elsewhere", ("onnx-float32", "cuda", 0.6))
    with Perturber.open(elsewhere.path, trust=elsewhere.trust, artefact="onnx-float32") as opened:
        assert opened.info["audited"] is False


@needs_cc
def test_an_owners_limit_is_held_by_what_was_measured_on_the_device(made, library, tmp_path):
    ctypes.CDLL(str(library / edge_tpu.LIBRARY))
    both = audited(made, tmp_path / "both", ("tflite-int8", None, 0.6), (COMPILED, "edgetpu", 0.7))
    here = audited(made, tmp_path / "here", ("tflite-int8", None, 0.6))
    for one, most, device, problem in (
        (both, 0.1, "cpu", None),
        (both, 0.1, "edgetpu", "beats chance"),
        (both, 0.2, "edgetpu", None),
        (here, 0.2, "edgetpu", "no audit in it speaks of " + COMPILED),
    ):
        trust = Trust.open(one.trust)
        trust.policy = Policy([Demand(one.manifest["perturber"]["sensitive"], most, True)])
        if problem is None:
            Perturber.open(one.path, trust=trust, device=device).close()
            continue
        with pytest.raises(BundleRefused, match=problem):
            Perturber.open(one.path, trust=trust, device=device)


@needs_cc
def test_rows_of_an_audit_go_through_the_device_that_was_asked_for(made, library, tmp_path):
    root = tmp_path / "root"
    (root / "current").mkdir(parents=True)
    shutil.copytree(made.trust, root / "trust")
    build_zipapp(root / "current" / "edgeveil-edge.pyz")
    x = np.random.default_rng(5).integers(0, 256, (4, *tiny_models.SHAPE)).astype(np.uint8)
    np.savez(tmp_path / "rows.npz", x=x)
    script = ROOT / "edge_runtime" / "audit_rows.py"
    words = [sys.executable, "-I", str(script), str(root), str(made.path), "auto"]
    rest = [str(tmp_path / "rows.npz"), str(tmp_path / "out.npz"), "[]"]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library)}
    done = subprocess.run([*words, "edgetpu", *rest], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["artefact"], json.loads(done.stdout)["device"]) == (COMPILED, "edgetpu")
    out = np.load(tmp_path / "out.npz")["frame"].astype(int)
    assert np.abs(out - (255 - x.astype(int))).max() <= 1


def test_a_workstation_stands_in_with_what_a_file_was_compiled_from(made):
    assert Subject(made.manifest, made.members, COMPILED).runs_here() == "tflite-int8"
    assert Subject(made.manifest, made.members, "onnx-int8").runs_here() == "onnx-int8"


def test_a_boards_columns_are_told_apart_by_their_devices():
    place = {"board": "Coral Dev Board", "architecture": "aarch64", "system": None, "python": "3.7"}
    old, cpu, tpu = (
        {"artefact": "a", "on_board": {**place, **more}} for more in ({}, {"device": "cpu"}, {"device": "x"})
    )
    assert column.joined(cpu, [old]) == [cpu]
    assert column.joined(tpu, [old]) == [old, tpu]
    assert column.title(tpu) == "a on Coral Dev Board, its x"
    assert column.title(old) == "a on Coral Dev Board"
