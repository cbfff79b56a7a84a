"""A network with the steps of int8 in it: near the files that converters make, and trained through its roundings."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.export.converters.keras_litert import KerasLitert
from edgeveil.trainer.export.converters.tf_lite import TfLite
from edgeveil.trainer.networks.rounded import Rounded, check
from tests.support.export_models import calibration, image_net, trained_like
from tests.trainer.export.converters.test_keras_litert import outputs


def conv(noise=0):
    from edgeveil.models.generators import conv_generator

    return trained_like(conv_generator((8, 8, 1), width=8, halvings=1, blocks=1, noise=noise))


def dense():
    from edgeveil.models.generators import mlp_generator

    return trained_like(mlp_generator(20, width=16, blocks=2, latent=6))


def series():
    from edgeveil.models.generators import series_generator

    return trained_like(series_generator((20, 3), width=8, halvings=1, blocks=1))


def given(rows):
    values = list(rows.values())
    return values[0] if len(values) == 1 else values


@pytest.mark.parametrize("converter", [TfLite, KerasLitert])
@pytest.mark.parametrize("make", [conv, lambda: conv(noise=4), dense, series])
def test_what_is_rounded_is_nearer_to_the_file_than_float32_is(make, converter):
    model = make()
    rows = calibration(model)
    rounded = Rounded(model)
    rounded.measure(rows)
    (name,) = model.output_names
    file = outputs(converter().convert(model, ["int8"], rows)["int8"], model, "int8", rows)[name]
    exact, ours = (np.asarray(one(given(rows), training=False)) for one in (model, rounded.model))
    assert np.abs(ours - file).mean() < np.abs(exact - file).mean() / 2


def test_training_it_trains_the_network_itself():
    import tensorflow as tf

    model = conv()
    rows = calibration(model)
    rounded = Rounded(model)
    rounded.measure(rows)
    names = sorted(v.path for v in rounded.model.trainable_variables)
    assert {id(v) for v in rounded.model.trainable_variables} == {id(v) for v in model.trainable_variables}, names
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(rounded.model(rows["image"], training=True) - 0.5))
    slopes = tape.gradient(loss, rounded.model.trainable_variables)
    assert all(slope is not None and float(tf.reduce_max(tf.abs(slope))) > 0 for slope in slopes)


def test_ranges_follow_the_network():
    model = conv()
    rows = calibration(model)
    rounded = Rounded(model)
    rounded.measure(rows)
    before = np.asarray(rounded.model(rows["image"]))
    first = model.layers[1]
    first.set_weights([10 * one for one in first.get_weights()])
    cut_off = np.asarray(rounded.model(rows["image"]))
    rounded.measure(rows)
    exact = np.asarray(model(rows["image"]))
    assert np.abs(np.asarray(rounded.model(rows["image"])) - exact).mean() <= np.abs(cut_off - exact).mean()
    assert not np.array_equal(before, cut_off)


def test_weights_that_it_cannot_round_are_named():
    with pytest.raises(BadInput, match=r"Conv2D and Dense layers.*got BatchNormalization 'batch_norm.*Leave"):
        check(image_net())
