"""Clipped sums by the layers' formulas, against one gradient for each example."""

import keras
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.models import classifiers, encoders
from edgeveil.trainer.private.per_example import Clipped

BATCH = 7


def cross_entropy(outputs, labels):
    import tensorflow as tf

    total = 0.0
    for logits in outputs if isinstance(outputs, list | tuple) else [outputs]:
        total += tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return total


def picture_encoder():
    trunk = encoders.image_trunk((28, 28, 1), width=4, features=16)
    return encoders.encoder(trunk, encoders.label_head(16, 3), encoders.code_head(16, 3, 4, width=8))


def strange_convolution():
    image = keras.Input((9, 8, 2))
    x = keras.layers.Conv2D(3, (3, 2), strides=(2, 1), padding="valid", use_bias=False)(image)
    x = keras.layers.Conv2D(4, 3, dilation_rate=2, padding="same", activation="tanh")(x)
    return keras.Model(image, keras.layers.Dense(3)(keras.layers.Flatten()(x)))


NETWORKS = {
    "picture encoder": picture_encoder,
    "vector encoder": lambda: encoders.encoder(
        encoders.vector_trunk(20, width=16, features=8), encoders.label_head(8, 3), encoders.code_head(8, 3, 4, width=8)
    ),
    "small": lambda: classifiers.small((16, 16, 1), 3, width=4),
    "Table 1, MNIST": lambda: classifiers.table1_mnist((10, 10, 1), 3),
    "Table 1, WiFi": lambda: classifiers.table1_wifi(12, 3),
    "strides, dilation, no bias": strange_convolution,
}


def one_by_one(model, clipped, x, labels, clip, mask):
    import tensorflow as tf

    values = [weight.value for weight in clipped.weights]
    sums, norms = [np.zeros(weight.shape) for weight in clipped.weights], []
    for at in range(len(x)):
        with tf.GradientTape() as tape:
            loss = cross_entropy(model(x[at : at + 1], training=False), labels[at : at + 1])[0]
        gradient = [np.array(g) for g in tape.gradient(loss, values, unconnected_gradients="zero")]
        norm = np.sqrt(sum((g**2).sum() for g in gradient))
        norms.append(norm)
        sums = [s + mask[at] * g * min(1.0, clip / norm) for s, g in zip(sums, gradient, strict=True)]
    return sums, norms


@pytest.mark.parametrize("name", NETWORKS)
def test_clipped_sums_are_those_of_gradients_one_by_one(name):
    keras.utils.set_random_seed(0)
    model = NETWORKS[name]()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(BATCH, *model.input_shape[1:])).astype(np.float32)
    labels = rng.integers(0, 3, BATCH)
    mask = np.array([1, 1, 0, 1, 1, 1, 0], np.float32)
    clipped = Clipped(model)
    assert clipped.by_formula
    sums, norms = clipped.sums(x, labels, cross_entropy, 0.7, mask)
    expected, lengths = one_by_one(model, clipped, x, labels, 0.7, mask)
    assert np.allclose(norms, lengths, rtol=1e-4)
    assert (np.array(lengths) > 0.7).any(), "nothing was clipped"
    for found, wanted in zip(sums, expected, strict=True):
        assert np.allclose(found, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


def test_other_layers_are_mapped_one_by_one():
    keras.utils.set_random_seed(0)
    series = keras.Input((12, 2))
    x = keras.layers.Flatten()(keras.layers.Conv1D(4, 3, activation="relu")(series))
    model = keras.Model(series, keras.layers.Dense(3)(x))
    clipped = Clipped(model)
    assert not clipped.by_formula
    rng = np.random.default_rng(0)
    data = rng.normal(size=(BATCH, 12, 2)).astype(np.float32)
    labels, mask = rng.integers(0, 3, BATCH), np.ones(BATCH, np.float32)
    sums, _ = clipped.sums(data, labels, cross_entropy, 0.5, mask)
    expected, _ = one_by_one(model, clipped, data, labels, 0.5, mask)
    for found, wanted in zip(sums, expected, strict=True):
        assert np.allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_a_layer_that_is_used_twice_is_mapped():
    vector = keras.Input((5,))
    twice = keras.layers.Dense(5)
    assert not Clipped(keras.Model(vector, twice(twice(vector)))).by_formula


def test_batch_statistics_are_refused_by_name():
    vector = keras.Input((5,))
    model = keras.Model(vector, keras.layers.Dense(2)(keras.layers.BatchNormalization(name="mixing")(vector)))
    with pytest.raises(BadInput, match="mixing"):
        Clipped(model)


def test_the_model_is_as_before_afterwards():
    model = NETWORKS["small"]()
    x = np.ones((2, 16, 16, 1), np.float32)
    before = np.array(model(x))
    Clipped(model).sums(x, np.zeros(2, np.int64), cross_entropy, 1.0, np.ones(2, np.float32))
    assert (np.array(model(x)) == before).all()
    assert not any("call" in vars(layer) for layer in model.layers)
