"""keras-litert: right numbers in every precision, whole int8 with the versions of int8, the same bytes twice."""

import tempfile
import warnings

import numpy as np
import pytest

from edgeveil.devices import profiles
from edgeveil.edge_runtime.backends import open_backend
from edgeveil.trainer.export.artefact import artefact_entry
from edgeveil.trainer.export.converters.converter import PRECISIONS, calibration_rows, function
from edgeveil.trainer.export.converters.keras_litert import KerasLitert
from edgeveil.trainer.export.converters.tf_lite import TfLite
from edgeveil.trainer.export.manifest import lint
from edgeveil.trainer.graphs.files import read
from edgeveil.trainer.tensorflow_quiet import quiet
from tests.support.export_models import calibration, classifier, image_net, two_input_net

LIMITS = {"float32": 1e-5, "float16": 5e-3, "int8": 0.12, "int16x8": 0.05}


def limited():
    """The generator that ships: it ends with a minimum, which the quantizer leaves in float."""
    from edgeveil.models.generators import conv_generator

    return conv_generator((8, 8, 1), width=8, halvings=1, blocks=1)


def dense():
    """A generator of vectors, whose weights are large enough to lie after the flatbuffer."""
    from edgeveil.models.generators import mlp_generator

    return mlp_generator(520, width=256, blocks=2)


def of_tensorflow(model, rows):
    """The model with 16-bit activations by TensorFlow's own converter, which we do not ship."""
    import tensorflow as tf

    module = tf.Module()
    module.variables_to_keep = [variable.value for variable in model.variables]
    module.call = function(model)
    with tempfile.TemporaryDirectory() as folder, quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tf.saved_model.save(module, folder, signatures={"serving_default": module.call})
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = calibration_rows(rows)
        ops = tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        converter.target_spec.supported_ops = [ops]
        converter.inference_input_type = converter.inference_output_type = tf.int16
        return bytes(converter.convert())


def outputs(data, model, precision, rows):
    names = {"inputs": [t.name for t in model.inputs], "outputs": list(model.output_names)}
    facts = artefact_entry(data, read(data, "tflite"), file="a.tflite", precision=precision, max_abs=1.0, **names)
    backend = open_backend("tflite", data, facts)
    try:
        return backend.run(rows)
    finally:
        backend.close()


@pytest.mark.parametrize("make", [image_net, two_input_net, classifier, limited, dense])
def test_every_precision_matches_keras_and_passes_the_lints(make):
    model = make()
    rows = calibration(model)
    expected = model(list(rows.values()) if len(rows) > 1 else next(iter(rows.values())), training=False)
    expected = [np.asarray(one) for one in (expected if isinstance(expected, list) else [expected])]
    for precision, data in KerasLitert().convert(model, KerasLitert.precisions, rows).items():
        got = outputs(data, model, precision, rows)
        for name, values in zip(model.output_names, expected, strict=True):
            assert np.abs(got[name] - values).max() < LIMITS[precision] * max(1.0, np.abs(values).max()), precision
        boards = ("raspberry-pi5", "coral-dev-board") if precision == "int8" else ("raspberry-pi5",)
        for board in boards:
            assert lint(read(data, "tflite"), precision, profiles.load(board)) == []


def test_operations_and_their_versions_are_those_of_tf_lite():
    model = limited()
    rows = calibration(model)
    ours, usual = (read(one.convert(model, ["int8"], rows)["int8"], "tflite") for one in (KerasLitert(), TfLite()))
    assert [(op.kind, op.version) for op in ours.ops] == [(op.kind, op.version) for op in usual.ops]
    assert [len(op.inputs[1].scales) for op in ours.ops if op.kind == "CONV_2D"] == [
        len(op.inputs[1].scales) for op in usual.ops if op.kind == "CONV_2D"
    ]


def test_a_dense_layer_has_one_scale_and_what_is_rare_is_not_cut_off():
    model = classifier()
    rows = calibration(model)
    rows["image"][5] *= 8  # one row in many: a moving average forgets it
    expected = np.asarray(model(rows["image"], training=False))
    data = KerasLitert().convert(model, ["int8"], rows)["int8"]
    graph = read(data, "tflite")
    assert {len(op.inputs[1].scales) for op in graph.ops if op.kind == "FULLY_CONNECTED"} == {1}
    got = outputs(data, model, "int8", rows)["logits"]
    assert np.abs(got[5] - expected[5]).max() < 0.1 * np.abs(expected[5]).max()


def test_the_same_bytes_whatever_was_converted_before():
    model = image_net()
    rows = calibration(model)
    first = KerasLitert().convert(model, PRECISIONS, rows)
    KerasLitert().convert(two_input_net(), ["float32"])
    assert KerasLitert().convert(model, PRECISIONS, rows) == first


@pytest.mark.parametrize("make", [limited, dense, two_input_net])
def test_int16x8_is_nearer_than_int8_and_as_near_as_tensorflows_own(make):
    model = make()
    rows = calibration(model)
    expected = model(list(rows.values()) if len(rows) > 1 else next(iter(rows.values())), training=False)
    first = np.asarray(expected[0] if isinstance(expected, list) else expected)
    files = KerasLitert().convert(model, ["int8", "int16x8"], rows)
    name = model.output_names[0]
    off = {one: np.abs(outputs(data, model, one, rows)[name] - first).mean() for one, data in files.items()}
    theirs = np.abs(outputs(of_tensorflow(model, rows), model, "int16x8", rows)[name] - first).mean()
    assert off["int16x8"] < min(off["int8"] / 2, 2 * theirs)
    graph = read(files["int16x8"], "tflite")
    assert {one.dtype for one in (*graph.inputs.values(), *graph.outputs.values())} == {"int16"}
    assert {op.inputs[1].dtype for op in graph.ops if op.kind in ("CONV_2D", "FULLY_CONNECTED")} == {"int8"}
    assert lint(graph, "int16x8", profiles.load("raspberry-pi5")) == []
