"""MACs and parameters: by hand, of less usual layers, and what is not counted; whole networks are in test_cost.py."""

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.export.converters.tf2onnx import Tf2Onnx
from edgeveil.trainer.export.converters.tf_lite import TfLite
from edgeveil.trainer.graphs.files import read
from edgeveil.trainer.graphs.macs import Cost, graph_macs, keras_macs
from tests.support.export_models import calibration, image_net, trained_like


def everywhere(model, precisions=("float32", "int8")):
    rows = calibration(model, 4)
    costs = {"keras": keras_macs(model)}
    for form, convert in (("tflite", TfLite().convert), ("onnx", Tf2Onnx().convert)):
        costs |= {f"{form}-{p}": graph_macs(read(data, form)) for p, data in convert(model, precisions, rows).items()}
    return costs


def test_a_convolution_by_hand():
    # 4x4x8 places times 3x3x1, then 8x8x1 places times 3x3x8; a bias each where batch normalisation folds.
    assert keras_macs(image_net()) == Cost(4 * 4 * 8 * 9 + 8 * 8 * 9 * 8, 9 * 8 + 8 + 9 * 8 + 1)


def test_less_usual_layers_count_alike_everywhere():
    import keras

    layers = keras.layers
    image = h = keras.Input((8, 8, 3), name="image")
    h = layers.SeparableConv2D(8, 3, padding="same", activation="relu")(h)
    h = layers.Conv2DTranspose(4, 3, strides=2, padding="same")(h)
    h = layers.ReLU()(layers.BatchNormalization()(h))
    h = layers.Dense(5, use_bias=False)(h)
    model = keras.Model(image, layers.Dense(2, name="output")(layers.GlobalAveragePooling2D()(h)))
    trained_like(model)
    costs = everywhere(model)
    assert len(set(costs.values())) == 1, costs


def test_a_layer_nobody_can_count_is_named():
    import keras

    steps = keras.Input((5, 3))
    attention = keras.layers.MultiHeadAttention(2, 2, name="memory")
    with pytest.raises(BadInput, match="how to count the layer 'memory'"):
        keras_macs(keras.Model(steps, attention(steps, steps)))
    image = keras.Input((8, 8, 3))
    with pytest.raises(BadInput, match=r"'conv' \(Conv\)"):
        keras_macs(keras.Model(image, keras.ops.conv(image, keras.ops.ones((3, 3, 3, 4)))))
    with pytest.raises(BadInput, match="sequential or functional"):
        keras_macs(keras.layers.Dense(1))


def test_a_gated_unit_meets_its_kernels_at_every_step():
    import keras

    steps = keras.Input((5, 3))
    model = keras.Model(steps, keras.layers.GRU(4, name="memory")(steps))
    assert keras_macs(model) == (5 * 3 * (3 + 4) * 4, model.count_params())
    model = keras.Model(steps, keras.layers.LSTM(4)(steps))
    assert keras_macs(model) == (5 * 4 * (3 + 4) * 4, model.count_params())
    both = keras.layers.Bidirectional(keras.layers.GRU(4), name="both")
    with pytest.raises(BadInput, match="how to count the layer 'both'"):
        keras_macs(keras.Model(steps, both(steps)))
