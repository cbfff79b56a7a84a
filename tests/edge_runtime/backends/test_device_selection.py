"""Accelerators: asked for by name, never in silence something else in their place.

The Edge TPU's path is run with a delegate of TFLite's own kind under libedgetpu's name (``edge_tpu``), OpenVINO's with
the devices that its wheels bring besides the processor; MYRIAD and CUDA are in none here, and their refusal is real.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from edgeveil.devices.agents import gather_facts
from edgeveil.edge_runtime import config, paths
from edgeveil.edge_runtime.api import Perturber
from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.backends.onnx import operations_by_provider
from edgeveil.edge_runtime.cli import main, releases
from edgeveil.edge_runtime.device import NoDevice
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.inside import process
from edgeveil.edge_runtime.ipc.counters import shared_page
from edgeveil.edge_runtime.lut import as_array
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.outside import process_table
from edgeveil.edge_runtime.releases import runtimes as board
from edgeveil.edge_runtime.sandbox import isolation
from tests.support import bundles, tiny_models
from tests.support.boards import edge_tpu
from tests.support.boards.edge_tpu import COMPILED
from tests.support.checkout import PACKAGES

pytestmark = pytest.mark.programs


def edge(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "edgeveil.edge_runtime", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(PACKAGES), **{name: str(value) for name, value in environment.items()}},
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


def test_a_service_says_what_runs_it(made, library, tmp_path):
    np.savez(tmp_path / "in.npz", x=np.zeros((2, *tiny_models.SHAPE), np.uint8))
    words = ["run", made.path, "--trust", made.trust, "--device", "edgetpu", "--json", "--log", "json"]
    words += ["--source", f"npz:{tmp_path}/in.npz", "--sink", "preview:0", "--health", "off", "--as-root"]
    done = edge(*words, LD_LIBRARY_PATH=library)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["device"] == "edgetpu"
    ready = next(json.loads(line) for line in done.stderr.splitlines() if '"ready"' in line)
    assert ready["message"].startswith(COMPILED)
    assert ready["message"].endswith(", on edgetpu")
    said = next(json.loads(line) for line in done.stderr.splitlines() if '"audit"' in line)
    assert said["message"].startswith(f"no audit has measured what leaks when {COMPILED} runs on edgetpu")


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
        out = as_array(backend.run(feeds)["output"])
        assert np.abs(out - (1 - feeds["image"]) * 255 / 256).max() < 0.01
        backend.close()


@pytest.mark.parametrize(
    ("said", "match"),
    [("missing", "cannot be loaded"), ("other", "is no delegate of TFLite"), ("absent", "opened no Edge TPU")],
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
        ({"device": "gpu"}, BadInput, "expected the device cpu | hailo8"),
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
    from edgeveil.edge_runtime.backends import onnx

    def session(model, options, device, precision):
        return onnx.onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    monkeypatch.setattr(onnx, "_open_on_gpu", session)
    with pytest.raises(NoDevice, match=r"operations would run on the processor \(.*Conv.*--device cuda,cpu"):
        tiny_models.backend(tiny.manifest, tiny.members, "onnx-float32", device="cuda")
    found = tiny_models.backend(tiny.manifest, tiny.members, "onnx-float32", device="cuda,cpu").placement()
    assert found["device"] == "CPU"
    assert found["kernels"]["CPUExecutionProvider"] > 3


def test_a_profile_that_says_nothing_of_where_operations_ran_is_no_proof(tiny, monkeypatch):
    from edgeveil.edge_runtime.backends import onnx

    def session(model, options, device, precision):
        return onnx.onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    monkeypatch.setattr(onnx, "_open_on_gpu", session)
    monkeypatch.setattr(onnx, "operations_by_provider", lambda _events: ({}, []))
    for device in ("cuda", "cuda,cpu"):
        with pytest.raises(NoDevice, match="does not say where operations ran"):
            tiny_models.backend(tiny.manifest, tiny.members, "onnx-float32", device=device)


def test_a_profile_is_read_by_operation():
    kernel = {"cat": "Node", "args": {"provider": "CUDAExecutionProvider", "op_name": "Conv"}}
    events = [{"cat": "Session", "name": "model_run", "args": {}}, {**kernel, "name": "a_kernel_time"}]
    events += [{**kernel, "name": "a_fence_before"}, {**kernel, "name": "a_kernel_time"}]
    events += [
        {"cat": "Node", "name": "b_kernel_time", "args": {"provider": "CPUExecutionProvider", "op_name": "Tanh"}}
    ]
    assert operations_by_provider(events) == ({"CUDAExecutionProvider": 1, "CPUExecutionProvider": 1}, ["Tanh"])


def test_the_self_test_is_of_the_device_that_runs(made, monkeypatch):
    """What comes out wrong on the accelerator stops there, whatever the processor would have made of it."""
    from edgeveil.edge_runtime.backends import tflite

    def processor(library, options):
        source = made.manifest["models"]["generator"]["artefacts"]["tflite-int8"]
        interpreter = library.Interpreter(**dict(options, model_content=made.members[source["file"]]))
        interpreter.allocate_tensors()
        return interpreter

    monkeypatch.setattr(tflite, "_open_on_edge_tpu", processor)
    with pytest.raises(DeviceFailed, match=f"self-test of {COMPILED} failed.*or device"):
        Perturber.open(made.path, trust=made.trust, device="edgetpu")


@pytest.mark.parametrize(
    ("device", "namespace"),
    [("cpu", True), ("edgetpu", True), ("myriad,cpu", False), ("openvino:HETERO:MYRIAD,CPU", False)],
)
def test_a_driver_that_waits_for_udev_is_left_where_udev_speaks(monkeypatch, device, namespace):
    """The filter refuses sockets there all the same."""
    entered = []
    enter = lambda self, namespace, account: entered.append(namespace) or "by a test"  # noqa: E731
    monkeypatch.setattr(isolation.Isolation, "enter", enter)
    theirs, ours = os.pipe()
    os.close(theirs)  # nobody listens and the bundle is none: it ends as soon as it is cut off
    settings = config.merged(
        {"bundle": "b", "trust": "t", "source": "camera:0", "sink": ["none"], "device": device}, {}
    )
    network = process_table.process_table(settings, parse({"input": {"shape": [1], "dtype": "uint8"}}))[-1].network
    assert process._run(settings, process.Ends(os.dup(ours), ours, shared_page(), -1, None), network=network) != 0
    os.close(ours)
    assert entered == [namespace]


def test_a_release_is_tried_on_the_device_that_will_run_it(made, library):
    words = ["try", made.path, "--trust", made.trust, "--frames", "3"]
    done = edge(*words, "--device", "edgetpu", LD_LIBRARY_PATH=library)
    assert (done.returncode, done.stdout) == (0, f"passed: 3 frames with {COMPILED} on edgetpu\n"), done.stderr
    refused(edge(*words, "--device", "edgetpu", EDGE_TPU="absent", LD_LIBRARY_PATH=library), code=4)


@pytest.mark.parametrize(("named", "tried"), [(None, "edgetpu"), ("cpu", "cpu")])
def test_what_has_the_accelerator_makes_way_for_a_trial(tmp_path, monkeypatch, capsys, named, tried):
    (tmp_path / "edge.json").write_text('{"device": "edgetpu"}')
    monkeypatch.setattr(config, "DEFAULT_PATH", str(tmp_path / "edge.json"))
    monkeypatch.setattr(paths, "SYSTEMD", str(tmp_path))
    done = []
    monkeypatch.setattr(board, "_exit_code", lambda command: done.append(" ".join(command)) or int("start" in command))
    ended = board.confinement.Ended(0, "", "")
    monkeypatch.setattr(board.confinement, "run", lambda command, **_: done.append(command) or ended)
    monkeypatch.setattr(board.os, "geteuid", lambda: 1000)  # the bundle's own runtime is not tried
    (tmp_path / "a.veil").write_bytes(b"")

    class Releases:
        def changing(self, _what):
            return contextlib.nullcontext()

        def install(self, _data, trial, again):
            trial("/opt/edgeveil/releases/1", SimpleNamespace(audit=None))
            return True

        def state(self):
            return argparse.Namespace(committed="1", floor=0)

    monkeypatch.setattr(board, "open_releases", lambda _root: Releases())
    monkeypatch.setattr(releases, "_read_bundle", lambda *_: b"")
    monkeypatch.setattr(releases, "_adopt", lambda _root: None)
    words = ["install", str(tmp_path / "a.veil"), *(["--device", named] if named else [])]
    arguments = main._parser().parse_args(words)
    arguments.call(arguments)
    (trial,) = (one for one in done if type(one) is list)
    assert trial[trial.index("--frames") + 2 :] == ([] if tried == "cpu" else ["--device", "edgetpu"])
    both = "edgeveil.service edgeveil-inside.service"
    around = [f"systemctl --quiet is-active {both}", f"systemctl stop {both}"], ["systemctl start edgeveil.service"]
    assert done == ([trial] if tried == "cpu" else [*around[0], trial, *around[1]])
    assert ("did not start again" in capsys.readouterr().err) == (tried != "cpu")


def test_settings_of_a_board_that_cannot_be_read_are_no_processor(tmp_path, monkeypatch):
    path = tmp_path / "edge.json"
    monkeypatch.setattr(gather_facts, "_as_root", lambda _: None)
    assert gather_facts._settings_device(str(path)) is None
    for text, device in (("{}", "cpu"), ('{"device": "edgetpu"}', "edgetpu"), ("", ""), ("[]", "")):
        path.write_text(text)
        assert gather_facts._settings_device(str(path)) == device
