"""edgeveil.edge_runtime.backends: real numbers in and out, every surprise at the boundary a dropped frame."""

import numpy as np
import pytest

from edgeveil.edge_runtime.backends import available, open_backend, select
from edgeveil.edge_runtime.backends.base import Backend, Tensor
from edgeveil.edge_runtime.backends.tflite import _delegated
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, FrameDropped
from edgeveil.edge_runtime.kinds import BACKENDS
from edgeveil.edge_runtime.lut import as_array
from edgeveil.edge_runtime.registry import Kind
from tests.support import tiny_models


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(1)
    return {"image": rng.random((5, *tiny_models.SHAPE), np.float32), "noise": rng.random((5, 4), np.float32)}


@pytest.fixture(scope="module")
def keras_output(tiny, inputs):
    reference = tiny_models.backend(tiny.manifest, tiny.members, "onnx-float32", kernels="reference")
    return reference.run(inputs)["output"]


@pytest.mark.parametrize("variant", tiny_models.VARIANTS)
@pytest.mark.parametrize("kernels", ["production", "reference"])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_artefact_computes_the_same(tiny, inputs, keras_output, variant, kernels, threads):
    backend = tiny_models.backend(tiny.manifest, tiny.members, variant, kernels=kernels, threads=threads)
    out = backend.run(inputs)["output"]
    assert out.dtype == np.float32
    assert out.shape == keras_output.shape
    assert np.abs(out - keras_output).max() < (0.02 if variant.endswith("int8") else 1e-5)
    info = backend.info()
    assert info["backend"] == available(variant.split("-")[0])[0]
    assert info["version"][0].isdigit()
    assert (info["threads"], info["kernels"]) == (threads, kernels)
    backend.close()
    with pytest.raises(FrameDropped, match="backend"):
        backend.run(inputs)


@pytest.mark.parametrize("variant", tiny_models.VARIANTS)
@pytest.mark.parametrize("kernels", ["production", "reference"])
def test_where_operations_ran_is_asked_of_the_interpreter(tiny, variant, kernels):
    backend = tiny_models.backend(tiny.manifest, tiny.members, variant, kernels=kernels)
    found = backend.placement()
    assert (found["device"], found["driver"]) == ("CPU", "not applicable")
    if variant.startswith("onnx"):
        assert found["kernels"] == {"CPUExecutionProvider": "all"}
        assert ("ORT_DISABLE_ALL" in found["compiler"]) == (kernels == "reference")
        return
    operations = [node["op_name"] for node in backend._interpreter._get_ops_details()]
    assert sum(found["kernels"].values()) == len(operations) - operations.count("DELEGATE")
    assert ("XNNPACK" in found["kernels"]) == (kernels == "production")
    assert ("reference kernels" in found["kernels"]) == (kernels == "reference")


def test_operations_between_a_delegates_ends_are_its_own_and_no_others():
    def node(name, inputs, outputs):
        return {"op_name": name, "inputs": inputs, "outputs": outputs}

    # 0 -> CONV -> 2 -> TANH -> 3 -> CUSTOM -> 4 -> ADD (with 2) -> 5; the delegate has two parts around CUSTOM.
    graph = [node("CONV_2D", [0, 1], [2]), node("TANH", [2], [3]), node("CUSTOM", [3], [4]), node("ADD", [4, 2], [5])]
    assert _delegated(graph) == set()
    assert _delegated([*graph, node("DELEGATE", [0], [3, 2]), node("DELEGATE", [4, 2], [5])]) == {0, 1, 3}
    assert _delegated([*graph, node("DELEGATE", [0], [5])]) == {0, 1, 2, 3}


@pytest.mark.parametrize("variant", tiny_models.VARIANTS)
def test_one_frame_gives_what_it_gives_among_others(tiny, inputs, variant):
    backend = tiny_models.backend(tiny.manifest, tiny.members, variant)
    together = backend.run(inputs)["output"]
    for row in range(5):
        alone = backend.run({name: value[row : row + 1] for name, value in inputs.items()})["output"]
        assert alone.tobytes() == together[row : row + 1].tobytes()
    kept = together.copy()
    backend.run({name: 1 - value for name, value in inputs.items()})
    assert np.array_equal(together, kept)


@pytest.mark.parametrize("variant", ["tflite-int8", "onnx-float32"])
def test_inputs_of_another_shape_are_dropped(tiny, inputs, variant):
    backend = tiny_models.backend(tiny.manifest, tiny.members, variant)
    noise, image = inputs["noise"], inputs["image"]
    for wrong in ({"noise": noise[:, :3]}, {"noise": noise[:2]}, {"image": image[..., 0]}):
        with pytest.raises(FrameDropped, match="shape"):
            backend.run({**inputs, **wrong})


@pytest.mark.parametrize(
    ("key", "value", "match"),
    [
        ("tensor", "elsewhere", "elsewhere"),
        ("shape", [1, 5], "noise"),
        ("dtype", "uint8", "uint8"),
        ("shape", [2, 4], "one batch size"),
        ("scale", None, "scale"),
    ],
)
def test_a_manifest_that_does_not_fit_the_model_is_refused(tiny, key, value, match):
    entry = dict(tiny.manifest["models"]["generator"]["artefacts"]["tflite-int8"])
    entry["inputs"] = [dict(tensor) for tensor in entry["inputs"]]
    next(tensor for tensor in entry["inputs"] if tensor["name"] == "noise")[key] = value
    with pytest.raises(DeviceFailed, match=match):
        open_backend("tflite", tiny.members[entry["file"]], entry)


ENTRY = {"name": "image", "tensor": "t", "shape": [1, 4], "dtype": "int8", "scale": 1 / 255, "zero_point": -128}
FLOAT = {**ENTRY, "dtype": "float32", "scale": None, "zero_point": None}


def test_quantised_numbers_are_those_of_the_formula():
    tensor = Tensor(ENTRY)
    real = np.array([[0, 1, 0.502, 2]], np.float32)
    q = tensor.encode(real)
    assert q.tolist() == [[-128, 127, 0, 127]]
    assert q.dtype == np.int8
    assert np.allclose(as_array(tensor.decode(q)), (q.astype(float) + 128) / 255, atol=1e-7)
    for dtype, scale, zero in (("uint8", 0.1, 3), ("int16", 0.001, 0), ("int8", 0.02, 5)):
        tensor = Tensor({**ENTRY, "dtype": dtype, "scale": scale, "zero_point": zero})
        codes = np.array([[1, 2, 77, 100]], dtype)
        assert np.array_equal(tensor.encode(tensor.decode(codes)), codes)
        assert np.allclose(as_array(tensor.decode(codes)), (codes.astype(float) - zero) * scale, rtol=1e-6)


def test_a_whole_frame_of_bytes_survives_both_ways():
    """With image input at a scale of 1/255, a byte stays the byte it was."""
    tensor = Tensor({**ENTRY, "shape": [1, 256]})
    u = (np.arange(256, dtype=np.float32) / 255)[None]
    assert np.array_equal(tensor.encode(u)[0].astype(int) + 128, np.arange(256))


class Fake(Backend):
    """An interpreter that returns what it is told to."""

    name = "fake"

    def __init__(self, returns, entry=FLOAT):
        self.returns = returns
        super().__init__(b"", {"inputs": [entry], "outputs": [entry]})

    def _open(self, model):
        pass

    def _infer(self, feeds):
        if isinstance(self.returns, Exception):
            raise self.returns
        return self.returns


@pytest.mark.parametrize(
    ("returns", "entry", "reason"),
    [
        ([np.zeros((1, 5), np.float32)], FLOAT, "output-shape"),
        ([np.zeros((4,), np.float32)], FLOAT, "output-shape"),
        ([np.zeros((1, 4), np.float64)], FLOAT, "output-dtype"),
        ([np.zeros((1, 4), np.uint8)], ENTRY, "output-dtype"),
        ([np.zeros((1, 4), np.float32)], ENTRY, "output-dtype"),
        (RuntimeError("171 171 171"), FLOAT, "backend"),
    ],
)
def test_what_an_interpreter_should_not_return_drops_the_frame(returns, entry, reason):
    with pytest.raises(FrameDropped) as caught:
        Fake(returns, entry).run({"image": np.full((1, 4), 0.67, np.float32)})
    assert caught.value.reason == reason
    assert caught.value.__context__ is None
    assert "171" not in str(caught.value)


def test_names_nobody_knows_are_refused(tiny):
    entry = tiny.manifest["models"]["generator"]["artefacts"]["tflite-int8"]
    with pytest.raises(BadInput, match="hef or numpy or onnx or rknn or tflite"):
        open_backend("caffe", b"", entry)
    with pytest.raises(BadInput, match="ai-edge-litert, tflite-runtime, openvino, or auto"):
        open_backend("tflite", b"", entry, backend="onnxruntime")
    with pytest.raises(BadInput, match="production or reference"):
        open_backend("tflite", b"", entry, kernels="fast")


@pytest.mark.parametrize("form", ["tflite", "onnx"])
def test_bytes_that_are_no_model_are_refused_in_one_line(tiny, form):
    entry = tiny.manifest["models"]["generator"]["artefacts"][f"{form}-float32"]
    with pytest.raises(DeviceFailed, match=f"can run this {form} artefact") as caught:
        open_backend(form, b"not a model at all", entry)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("form", "device", "install"),
    [
        ("tflite", "cpu", "ai-edge-litert"),
        ("onnx", "cpu", ": pip install onnxruntime"),
        ("hef", "hailo8", ": install HailoRT's wheel from hailo.ai$"),
    ],
)
def test_a_machine_without_interpreters_is_told_what_to_install(monkeypatch, form, device, install):
    real, packages = select.importlib.util.find_spec, {kind.facts["package"] for kind in BACKENDS.kinds().values()}
    monkeypatch.setattr(select.importlib.util, "find_spec", lambda name: None if name in packages else real(name))
    assert available(form) == []
    with pytest.raises(DeviceFailed, match=install) as caught:
        open_backend(form, b"", {}, device=device)
    assert caught.value.exit_code == 2


def test_the_next_interpreter_is_tried_where_the_first_is_broken(tiny, monkeypatch, inputs):
    entry = tiny.manifest["models"]["generator"]["artefacts"]["tflite-int8"]
    facts = {"package": "numpy", "formats": {"tflite": "broken"}}
    there = {"broken": Kind("broken", "no_such_module", "Nothing", facts), **BACKENDS.kinds()}
    monkeypatch.setattr(BACKENDS, "_kinds", there)
    backend = open_backend("tflite", tiny.members[entry["file"]], entry)
    assert backend.info()["backend"] == "ai-edge-litert"
    with pytest.raises(DeviceFailed, match="broken said"):
        open_backend("tflite", tiny.members[entry["file"]], entry, backend="broken")


def test_onnxruntime_does_not_spin_between_frames(tiny):
    entry = tiny.manifest["models"]["generator"]["artefacts"]["onnx-float32"]
    one, two = (open_backend("onnx", tiny.members[entry["file"]], entry, threads=n) for n in (1, 2))
    assert two._session.get_session_options().get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert two._session.get_session_options().intra_op_num_threads == 2
    assert one._session.get_session_options().intra_op_num_threads == 1


def test_a_bare_call_runs_the_interpreter(tiny):
    for variant in tiny_models.VARIANTS:
        call = tiny_models.backend(tiny.manifest, tiny.members, variant).bare_call(np.random.RandomState(0))
        assert call()[0].shape == (1, *tiny_models.SHAPE)
