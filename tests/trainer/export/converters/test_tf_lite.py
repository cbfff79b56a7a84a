"""TFLite: batch 1, named ends, right numbers in every precision, the same bytes twice, and nothing on stdout."""

import numpy as np
import pytest

from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.export.artefact import artefact_entry
from edgeveil.trainer.export.converters.converter import PRECISIONS
from edgeveil.trainer.export.converters.tf_lite import TfLite
from edgeveil.trainer.graphs.files import read
from tests.support.export_models import calibration, classifier, image_net, two_input_net

# Largest error against Keras in the unit cube; the toolchain's own figures with room.
LIMITS = {"float32": 1e-5, "float16": 2e-3, "int8": 0.05}


def entry(data, model, precision):
    graph = read(data, "tflite")
    names = {"inputs": [t.name for t in model.inputs], "outputs": list(model.output_names)}
    return artefact_entry(data, graph, file="artefacts/x.tflite", precision=precision, max_abs=1.0, **names)


def run(data, model, precision, values, kernels="production"):
    backend = open_backend("tflite", data, entry(data, model, precision), kernels=kernels)
    return backend.run(values)


@pytest.fixture(scope="module")
def two():
    model = two_input_net()
    rows = calibration(model)
    return model, rows, TfLite().convert(model, PRECISIONS, rows)


@pytest.fixture(scope="module")
def of_pictures():
    model = image_net()
    rows = calibration(model)
    return model, rows, TfLite().convert(model, PRECISIONS, rows)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_two_inputs_and_two_outputs_match_keras(two, precision):
    model, rows, artefacts = two
    got = run(artefacts[precision], model, precision, rows)
    for name, expected in zip(model.output_names, model.predict(list(rows.values()), verbose=0), strict=True):
        scale = max(1.0, np.abs(expected).max())
        assert np.abs(got[name] - expected).max() < LIMITS[precision] * scale


def test_each_precision_is_what_it_says(two):
    _, _, artefacts = two
    assert len(artefacts["int8"]) < len(artefacts["float16"]) < len(artefacts["float32"])
    graphs = {precision: read(data, "tflite") for precision, data in artefacts.items()}
    assert {t.dtype for t in graphs["int8"].inputs.values()} == {"int8"}
    assert {t.dtype for t in graphs["int8"].outputs.values()} == {"int8"}
    assert {t.dtype for t in graphs["float16"].inputs.values()} == {"float32"}
    assert any(t.dtype == "float16" and t.constant for t in graphs["float16"].tensors())
    for graph in graphs.values():
        assert {tensor.shape[0] for tensor in graph.inputs.values()} == {1}


def test_image_ends_are_exactly_a_byte(two):
    _, _, artefacts = two
    graph = read(artefacts["int8"], "tflite")
    assert graph.inputs["image"].scales[0] == pytest.approx(1 / 255, rel=1e-6)
    assert graph.inputs["image"].zero_points == (-128,)


def test_tensors_are_named_as_the_interpreter_knows_them(two):
    from ai_edge_litert.interpreter import Interpreter

    model, _, artefacts = two
    for precision, data in artefacts.items():
        interpreter = Interpreter(model_content=data)
        known = {d["name"]: d for d in interpreter.get_input_details() + interpreter.get_output_details()}
        facts = entry(data, model, precision)
        assert [t["name"] for t in facts["inputs"]] == ["image", "noise"]
        for tensor in facts["inputs"] + facts["outputs"]:
            details = known[tensor["tensor"]]
            assert details["shape"].tolist() == tensor["shape"]
            assert np.dtype(details["dtype"]) == tensor["dtype"]
            if tensor["scale"]:
                assert details["quantization"] == (pytest.approx(tensor["scale"]), tensor["zero_point"])


def test_dropout_vanishes_and_nothing_is_random():
    model = classifier()
    rows = calibration(model)
    data = TfLite().convert(model, ["int8"], rows)["int8"]
    kinds = {op.kind for op in read(data, "tflite").ops}
    assert kinds == {"CONV_2D", "MAX_POOL_2D", "RESHAPE", "FULLY_CONNECTED"}
    one, again = (run(data, model, "int8", rows)["logits"] for _ in range(2))
    assert np.array_equal(one, again)
    expected = model.predict(rows["image"], verbose=0)
    assert (one.argmax(1) == expected.argmax(1)).mean() > 0.9


def test_an_open_size_is_refused_by_name():
    import keras

    image = keras.Input((None, 8, 1), name="image")
    model = keras.Model(image, keras.layers.Conv2D(1, 3, name="output")(image))
    with pytest.raises(BadInput, match="its input 'image' open"):
        TfLite().convert(model, ["float32"])
