"""The lint refuses what a board could not run or would run wrongly, and names the operation, the rule and the cure."""

import functools
import re

import pytest

from edgeveil.devices import profiles
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.model_lint import problems
from edgeveil.trainer.export.converters.tf2onnx import Tf2Onnx
from edgeveil.trainer.export.converters.tf_lite import TfLite
from edgeveil.trainer.export.manifest import lint, refuse
from edgeveil.trainer.graphs.files import read
from edgeveil.trainer.graphs.macs import Graph, Op, Tensor
from tests.support.export_models import calibration, classifier, image_net


@functools.cache
def unsafe_graph(name):
    return graph(image_net(*unsafe(name)))


def graph(model, precision="int8", file_format="tflite"):
    module = TfLite() if file_format == "tflite" else Tf2Onnx()
    return read(module.convert(model, [precision], calibration(model))[precision], file_format)


def rules(findings):
    return {finding.rule for finding in findings}


@pytest.fixture(scope="module")
def good():
    model = image_net()
    return {
        (file_format, precision): graph(model, precision, file_format)
        for file_format in ("tflite", "onnx")
        for precision in ("float32", "float16", "int8")
    }


@pytest.mark.parametrize("name", profiles.names())
def test_a_safe_generator_passes_on_every_board(good, name):
    profile = profiles.load(name)
    for artefact in profile.artefacts:
        assert lint(good[tuple(artefact.split("-"))], artefact.split("-")[1], profile) == []


def test_every_precision_passes_without_a_board(good):
    for (_, precision), each in good.items():
        assert lint(each, precision) == []


def test_the_label_only_classifier_passes_for_coral():
    model = classifier()
    assert lint(graph(model), "int8", profiles.load("coral-dev-board")) == []
    assert lint(graph(model, "float32", "onnx"), "float32", profiles.load("jetson-nano")) == []


def unsafe(name):
    import keras

    layers = keras.layers
    return {
        "tile": [layers.UpSampling2D(2), layers.MaxPooling2D(2)],
        "leaky": [layers.LeakyReLU()],
        "gelu": [layers.Activation("gelu")],
        "elu": [layers.ELU()],
        "group-norm": [layers.GroupNormalization(2)],
        "transposed": [
            layers.Conv2DTranspose(8, 3, strides=2, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
        ],
    }[name]


@pytest.mark.parametrize(
    ("name", "rule", "kind", "cure"),
    [
        ("tile", "allowed-op", "TILE", "ResizeNearestNeighbor"),
        ("leaky", "allowed-op", "LEAKY_RELU", "use ReLU"),
        ("gelu", "allowed-op", "GELU", "use ReLU"),
        ("elu", "no-float-island", "ELU", "use ReLU"),
        ("group-norm", "no-float-island", "", "BatchNormalization"),
        ("transposed", "op-version", "TRANSPOSE_CONV", "BatchNormalization with ReLU after Conv2DTranspose"),
    ],
)
def test_what_coral_cannot_run_is_refused_with_its_cure(name, rule, kind, cure):
    findings = lint(unsafe_graph(name), "int8", profiles.load("coral-dev-board"))
    mine = [f for f in findings if f.rule == rule and (f.op.name if f.op else "").startswith(kind)]
    assert mine, findings
    assert any(cure in f.cure and f.op and re.search("operation .*, tensor", f.text()) for f in mine)
    says = rf"(?s)tflite-int8 of 'generator' does not pass the lint for coral-dev-board.*{rule}.*{cure}"
    with pytest.raises(BadInput, match=says):
        refuse([("tflite-int8", "generator", "coral-dev-board", findings)])


def test_a_float_island_is_found_without_a_board():
    assert "no-float-island" in rules(lint(unsafe_graph("elu"), "int8"))


def test_a_newer_runtime_than_the_boards_is_refused():
    tile = unsafe_graph("tile")
    assert tile.min_runtime_version >= "2.8"
    limits = profiles.TfliteLimits(min_runtime_version="2.7")
    old = profiles.load("raspberry-pi-cpu").model_copy(update={"tflite": limits})
    assert rules(lint(tile, "int8", old)) == {"min-runtime-version"}
    assert lint(tile, "int8", profiles.load("raspberry-pi-cpu")) == []


def test_a_model_too_large_for_a_board_is_refused_with_its_figures():
    sample, wide = Tensor("x", (1, 1024, 1024, 3), "float32"), Tensor("h", (1, 1024, 1024, 60), "float32")
    kernel, last = (
        Tensor("k", (60, 3, 3, 3), "float32", constant=True, bytes=4 << 20),
        Tensor("y", sample.shape, "int8"),
    )
    ops = Op("CONV_2D", "CONV_2D#0", (sample, kernel), (wide,)), Op("CONV_2D", "CONV_2D#1", (wide, kernel), (last,))
    large = Graph("tflite", ops, {"x": sample}, {"y": last})
    board = profiles.load("raspberry-pi-cpu")
    assert lint(large, "float32", board) == []  # exactly half of the least there is, a Zero 2 W's 512 MiB
    says = (
        "memory: operation CONV_2D#0, tensor 'h': 252 MiB of activations at once and 4 MiB of weights are needed, and "
        "a model may take 50% of the 500 MiB of raspberry-pi-cpu. Cure: stride earlier"
    )
    (finding,) = lint(large, "float32", board.model_copy(update={"memory_mib": 500}))
    assert finding.text().startswith(says)
    assert lint(large, "float32", profiles.load("workstation")) == []


def test_a_scale_per_output_of_a_dense_layer_is_refused():
    import tensorflow as tf

    model = classifier()
    rows = calibration(model)["image"]
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([row[None]] for row in rows)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    found = rules(lint(read(converter.convert(), "tflite"), "int8"))
    # The same file keeps an open batch: the lint says both.
    assert found >= {"one-scale-per-dense", "dynamic-dimension"}


def test_what_is_exported_of_a_network_draws_and_keeps_nothing():
    model = image_net()
    for module, form in ((TfLite(), "tflite"), (Tf2Onnx(), "onnx")):
        for data in module.convert(model, ["float32", "float16", "int8"], calibration(model)).values():
            assert problems(data, form) == []


def test_onnx_beyond_a_boards_opset_and_operations_is_refused(good):
    jetson = profiles.load("jetson-nano")
    small = profiles.OnnxLimits(opset=11, ir=6, ops=jetson.onnx.ops - {"Sigmoid"})
    findings = lint(good["onnx", "float32"], "float32", jetson.model_copy(update={"onnx": small}))
    assert {(f.rule, f.op.name.split("-")[0] if f.op else "") for f in findings} == {
        ("onnx-version", ""),
        ("allowed-op", "sigmoid"),
    }
    assert len(findings) == 3
    assert {f.text() for f in findings if f.op is None} == {
        "onnx-version: opset 13, and jetson-nano reads up to 11. Cure: convert with opset 11.",
        "onnx-version: IR version 7, and jetson-nano reads up to 6. Cure: save it with `model.ir_version = 6`.",
    }


def test_a_float_onnx_that_calls_itself_int8_is_refused(good):
    assert rules(lint(good["onnx", "float32"], "int8")) == {"no-float-island"}
    assert rules(lint(good["tflite", "float32"], "int8")) == {"no-float-island", "int8-ends"}


def test_an_open_batch_in_onnx_is_refused():
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("x", "y")]
    proto = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="relu")], "g", ends[:1], ends[1:])
    proto = helper.make_model(proto, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    findings = lint(read(proto.SerializeToString(), "onnx"), "float32")
    assert rules(findings) == {"dynamic-dimension"}


@pytest.mark.parametrize("file_format", ["tflite", "onnx"])
def test_bytes_that_are_no_model_are_refused(file_format):
    for junk in (b"", b"junk" * 100, b"\x10\0\0\0TFL3" + b"\xff" * 64):
        with pytest.raises(BadInput):
            read(junk, file_format)
