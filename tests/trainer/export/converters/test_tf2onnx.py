"""ONNX: opset 13, IR 7, batch 1, named ends, right numbers in every precision, the same bytes twice."""

import json
import platform
import subprocess
import sys

import numpy as np
import pytest

from edgeveil.edge_runtime.backends import open_backend
from edgeveil.trainer.export.artefact import artefact_entry
from edgeveil.trainer.export.converters.converter import PRECISIONS
from edgeveil.trainer.export.converters.tf2onnx import Tf2Onnx
from edgeveil.trainer.graphs.files import read
from tests.support import programs
from tests.support.export_models import calibration, classifier, image_net, two_input_net

pytestmark = pytest.mark.programs

LIMITS = {"float32": 1e-5, "float16": 5e-3, "int8": 0.05}


def run(data, model, precision, values):
    names = {"inputs": [t.name for t in model.inputs], "outputs": list(model.output_names)}
    facts = artefact_entry(data, read(data, "onnx"), file="artefacts/x.onnx", precision=precision, max_abs=1.0, **names)
    return open_backend("onnx", data, facts).run(values)


@pytest.fixture(scope="module")
def two():
    model = two_input_net()
    rows = calibration(model)
    return model, rows, Tf2Onnx().convert(model, PRECISIONS, rows)


@pytest.fixture(scope="module")
def of_pictures():
    model = image_net()
    rows = calibration(model)
    return model, rows, Tf2Onnx().convert(model, PRECISIONS, rows)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_two_inputs_and_two_outputs_match_keras(two, precision):
    model, rows, artefacts = two
    got = run(artefacts[precision], model, precision, rows)
    for name, expected in zip(model.output_names, model.predict(list(rows.values()), verbose=0), strict=True):
        scale = max(1.0, np.abs(expected).max())
        assert np.abs(got[name] - expected).max() < LIMITS[precision] * scale


def test_every_precision_is_valid_opset_13_of_ir_7(two):
    import onnx as library

    for data in two[2].values():
        library.checker.check_model(data, full_check=True)
        proto = library.load_from_string(data)
        assert proto.ir_version == 7
        assert [(entry.domain, entry.version) for entry in proto.opset_import] == [("", 13)]
        graph = read(data, "onnx")
        assert {t.dtype for t in (*graph.inputs.values(), *graph.outputs.values())} == {"float32"}
        assert {t.shape[0] for t in (*graph.inputs.values(), *graph.outputs.values())} == {1}


def test_each_precision_is_what_it_says(two):
    for precision, data in two[2].items():
        kernels = {t.dtype for t in read(data, "onnx").tensors() if t.constant and len(t.shape) == 4}
        assert kernels == {precision}


def test_int8_has_unsigned_activations_and_signed_weights(two):
    graph = read(two[2]["int8"], "onnx")
    makers = graph.makers()
    for op in graph.ops:
        if op.kind in ("Conv", "MatMul", "Gemm"):
            data, weights = (makers[id(tensor)].inputs[0] for tensor in op.inputs[:2])
            assert (data.dtype, weights.dtype) == ("uint8", "int8")


def test_no_two_int8_products_overflow_16_bits(two):
    """Every x86 computes the same: one without VNNI adds two of them, weight times activation, in 16 bits."""
    from onnx import load_from_string, numpy_helper

    graph = load_from_string(two[2]["int8"]).graph
    weights = [numpy_helper.to_array(c) for c in graph.initializer if len(c.dims) >= 2]
    assert len(weights) == 4
    assert {w.dtype for w in weights} == {np.dtype(np.int8)}
    assert 2 * 255 * max(np.abs(w.astype(int)).max() for w in weights) < 2**15


# Runs on a processor that is played to it: what int8 gives on this kind of kernels, beside what it gives on plain ones.
ON_ANOTHER_PROCESSOR = """
import sys
import numpy as np
import onnxruntime
feeds = dict(np.load(sys.argv[2]))
found = []
for level in ("ORT_ENABLE_ALL", "ORT_DISABLE_ALL"):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
    rows = range(len(next(iter(feeds.values()))))
    found.append([session.run(None, {name: value[row : row + 1] for name, value in feeds.items()}) for row in rows])
off = [np.abs(one - other).max() for fast, plain in zip(*found) for one, other in zip(fast, plain)]
print(float(max(off)))
"""


@pytest.mark.parametrize("processor", [pytest.param("Haswell", marks=pytest.mark.nightly), "EPYC-Rome"])
def test_int8_on_a_processor_without_vnni_is_what_plain_kernels_give(two, processor, tmp_path):
    if platform.machine() != "x86_64":
        pytest.skip("int8 is tried on an x86-64 processor without VNNI; this is none of x86-64")
    emulator = programs.need("qemu-x86_64-static")
    _, rows, artefacts = two
    (tmp_path / "int8.onnx").write_bytes(artefacts["int8"])
    np.savez(tmp_path / "rows.npz", **rows)
    words = [emulator, "-cpu", processor, sys.executable, "-c", ON_ANOTHER_PROCESSOR]
    done = subprocess.run(
        [*words, str(tmp_path / "int8.onnx"), str(tmp_path / "rows.npz")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) <= 3 / 255


def test_the_label_only_classifier_agrees_with_keras():
    model = classifier()
    rows = calibration(model)
    expected = model.predict(rows["image"], verbose=0).argmax(1)
    for precision, data in Tf2Onnx().convert(model, PRECISIONS, rows).items():
        assert (run(data, model, precision, rows)["logits"].argmax(1) == expected).mean() > 0.9


def test_the_same_model_gives_the_same_bytes_and_nothing_reaches_stdout(of_pictures, capfd):
    model, rows, made = of_pictures
    # The converters number tensors by a counter of the process: the second time it stands elsewhere.
    assert Tf2Onnx().convert(model, PRECISIONS, rows) == made
    assert capfd.readouterr().out == ""


@pytest.mark.nightly  # by day that the bytes are the same, above
def test_the_order_of_precisions_does_not_matter(two):
    model, rows, made = two
    assert Tf2Onnx().convert(model, ["int8", "float16", "float32"], rows) == made


@pytest.mark.parametrize(("side", "to"), [(12, 23), (7, 13), (6, 9), (11, 21), (23, 45)])
def test_a_picture_of_odd_sides_is_resized_to_the_side_that_was_meant(side, to):
    """23 / 12 in float32 is too small by a hair, and the specification takes the floor of side times scale."""
    import keras

    from edgeveil.models.layers import ResizeNearest

    image = keras.Input((side, side, 2), name="image")
    model = keras.Model(image, ResizeNearest(to, to, name="output")(image))
    data = Tf2Onnx().convert(model, ["float32"])["float32"]  # what it reads back of it is checked in every shape
    x = np.random.default_rng(0).random((1, side, side, 2)).astype(np.float32)
    assert np.array_equal(run(data, model, "float32", {"image": x})["output"], model.predict(x, verbose=0))
