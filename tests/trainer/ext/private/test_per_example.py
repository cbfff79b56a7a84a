"""Clipped sums by the layers' formulas, against one gradient for each example."""

import inspect

import keras
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.models import classifiers, encoders
from edgeveil.trainer.ext.private.per_example import Clipped

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


def trunk_with_heads(trunk, features):
    label, code = encoders.label_head(features, 3), encoders.code_head(features, 3, 4, width=8, dropout=0.1)
    return encoders.encoder(trunk, label, code)


def residual_encoder():
    """Its slopes are fixed: what is trained are the trunk and the layers that read cells and T of it."""
    rng = np.random.default_rng(1)
    trunk, label = encoders.vector_trunk(20, width=16, features=8), encoders.label_head(8, 3)
    cells, kept = keras.layers.Dense(6, name="cells"), keras.layers.Dense(2, name="kept")
    slope, offset = rng.normal(size=(6, 2, 4)), rng.normal(size=(6, 4))
    return encoders.residual_encoder(trunk, label, cells, kept, slope=slope, offset=offset)


def linear():
    rng = np.random.default_rng(1)
    return classifiers.linear(rng.normal(size=(5, 3)), rng.normal(size=3), operator=rng.normal(size=(12, 5)))


# Every network of models/encoders.py and models/classifiers.py, by the function that makes it.
NETWORKS = {
    "image_trunk": picture_encoder,
    "vector_trunk": lambda: trunk_with_heads(encoders.vector_trunk(20, width=16, features=8), 8),
    "label_head": lambda: encoders.label_head(8, 3),
    "code_head": lambda: encoders.code_head(8, 3, 4, width=8, dropout=0.2),
    "encoder": lambda: trunk_with_heads(encoders.image_trunk((12, 9, 3), width=4, features=8), 8),
    "residual_encoder": residual_encoder,
    "small": lambda: classifiers.small((16, 16, 1), 3, width=4),
    "table1_mnist": lambda: classifiers.table1_mnist((10, 10, 1), 3),
    "table1_wifi": lambda: classifiers.table1_wifi(12, 3),
    "strides, dilation, no bias": strange_convolution,
}
MAPPED = {"track_network": lambda: classifiers.track_network(6, 5, 3, channels=4)}  # convolutions over time
MIXING = {
    "normed_mlp": lambda: classifiers.normed_mlp(12, 3),
    "normed_cnn": lambda: classifiers.normed_cnn((16, 16, 1), 3, width=4),
    "windows": lambda: classifiers.windows(96, 3),
}
COMPOSED = {"with_labels"}  # of two networks, and refused under [private]
FIXED = {  # in closed form: they have no weights to train
    "linear": linear,
    "linear_head": lambda: classifiers.linear_head((12,), np.ones((3, 12)), np.zeros(3)),
}


def test_no_network_is_left_out():
    made = {
        name
        for module in (encoders, classifiers)
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }
    assert made <= {*NETWORKS, *MAPPED, *MIXING, *FIXED, *COMPOSED}


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


def both(name, make):
    """Sums and norms by ``Clipped`` and one by one, of a lot in which some are clipped."""
    keras.utils.set_random_seed(0)
    model = make()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(BATCH, *model.input_shape[1:])).astype(np.float32)
    labels = rng.integers(0, 3, BATCH)
    mask = np.array([1, 1, 0, 1, 1, 1, 0], np.float32)
    clipped = Clipped(model)
    clip = float(np.median(clipped.sums(x, labels, cross_entropy, 1.0, mask)[1]))
    found = clipped.sums(x, labels, cross_entropy, clip, mask)
    return clipped, found, one_by_one(model, clipped, x, labels, clip, mask)


@pytest.mark.parametrize("name", {**NETWORKS, **MAPPED})
def test_clipped_sums_are_those_of_gradients_one_by_one(name):
    clipped, (sums, norms), (expected, lengths) = both(name, {**NETWORKS, **MAPPED}[name])
    assert clipped.by_formula == (name in NETWORKS)
    assert np.allclose(norms, lengths, rtol=1e-5)
    for found, wanted in zip(sums, expected, strict=True):
        assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("name", ["encoder", "table1_wifi"])
def test_formulas_and_mapping_give_the_same(name):
    keras.utils.set_random_seed(0)
    model = NETWORKS[name]()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(BATCH, *model.input_shape[1:])).astype(np.float32)
    labels, clipped = rng.integers(0, 3, BATCH), Clipped(model)
    ways = []
    for by_formula in (True, False):
        clipped.by_formula = by_formula
        ways.append(clipped.sums(x, labels, cross_entropy, 0.7, np.ones(BATCH, np.float32))[0])
    for found, wanted in zip(*ways, strict=True):
        assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("name", MIXING)
def test_networks_with_batch_statistics_are_refused(name):
    with pytest.raises(BadInput, match="BatchNormalization"):
        Clipped(MIXING[name]())


def test_a_network_in_closed_form_has_nothing_to_train():
    assert not any(Clipped(one()).weights for one in FIXED.values())


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
