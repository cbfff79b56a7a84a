"""Networks of series: shapes, standardisation inside, and int8 files that an Edge TPU's lint accepts."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from edgeveil.devices import profiles
from edgeveil.models import encoders, series
from edgeveil.trainer.export.converters.tf2onnx import Tf2Onnx
from edgeveil.trainer.export.converters.tf_lite import TfLite
from edgeveil.trainer.export.manifest import lint
from edgeveil.trainer.graphs.files import read
from edgeveil.trainer.graphs.macs import keras_macs
from tests.support.once import nightly_but

SHAPE = (40, 3)


def networks():
    keras.utils.set_random_seed(0)
    trunk = series.trunk(SHAPE, width=8, features=16)
    return {
        "classifier": series.classifier(SHAPE, 5, width=8),
        "encoder": encoders.encoder(trunk, encoders.label_head(16, 5), encoders.code_head(16, 5, 4)),
    }


def windows(n=24):
    t = np.linspace(0, 1, SHAPE[0])[None, :, None]
    rng = np.random.default_rng(0)
    u = 0.5 + 0.3 * np.sin(2 * np.pi * (rng.uniform(1, 6, (n, 1, 3)) * t + rng.random((n, 1, 3))))
    return u.astype(np.float32)


@pytest.mark.parametrize("name", nightly_but(("classifier", "encoder"), "encoder"))
def test_int8_passes_the_lint_of_an_edge_tpu_and_answers_as_float_does(name):
    model = networks()[name]
    u = windows()
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization) and layer.name == "standard":
            layer.moving_mean.assign(u.mean(axis=(0, 1)))
            layer.moving_variance.assign(u.var(axis=(0, 1)))
    calibration = {model.inputs[0].name: u}
    data = TfLite().convert(model, ("int8",), calibration)["int8"]
    assert lint(read(data, "tflite"), "int8", profiles.load("coral-dev-board")) == []
    onnx = Tf2Onnx().convert(model, ("float32",), calibration)["float32"]
    assert lint(read(onnx, "onnx"), "float32", profiles.load("jetson-nano")) == []
    first = np.asarray(tf.nest.flatten(model(u, training=False))[0])
    close = np.abs(on_int8(data, u, first.shape[1:]) - first).max() / np.ptp(first)
    assert close < 0.1
    assert keras_macs(model).macs > 0


def on_int8(data, u, shape):
    """The output of that shape of an int8 file, in float32."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=data, num_threads=1)
    interpreter.allocate_tensors()
    (source,) = interpreter.get_input_details()
    sink = next(one for one in interpreter.get_output_details() if tuple(one["shape"][1:]) == shape)
    (scale, zero), (out_scale, out_zero) = source["quantization"], sink["quantization"]
    rows = []
    for window in u:
        interpreter.set_tensor(
            source["index"], np.clip(np.rint(window / scale) + zero, -128, 127).astype(np.int8)[None]
        )
        interpreter.invoke()
        rows.append((interpreter.get_tensor(sink["index"])[0].astype(np.float32) - out_zero) * out_scale)
    return np.stack(rows)


def test_channels_of_other_units_count_alike():
    """What is learned does not depend on the range that a channel happens to have in the unit cube."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 256)
    u = np.full((256, *SHAPE), 0.5, np.float32) + 1e-3 * rng.normal(size=(256, *SHAPE)).astype(np.float32)
    u[:, :, 0] = rng.random((256, SHAPE[0]))  # a loud channel that says nothing
    u[:, :, 1] += 2e-3 * (2 * y[:, None] - 1) * np.sin(np.linspace(0, 20, SHAPE[0]))[None]
    model = series.classifier(SHAPE, 2, width=8)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(5e-3), loss, jit_compile=False)
    model.fit(u[:192], y[:192], epochs=12, batch_size=32, verbose=0)
    assert (np.asarray(model(u[192:])).argmax(axis=1) == y[192:]).mean() > 0.7  # on 64 rows, where chance is 0.5
