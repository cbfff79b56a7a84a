"""Generators: the paper's budget, the identity to start from, a bounded output."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from edgeveil.devices import profiles
from edgeveil.models import adversaries, classifiers
from edgeveil.models.generators import conv_generator, mlp_generator, series_generator
from edgeveil.models.layers import UnitClip
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.export.converters.tf_lite import TfLite
from edgeveil.trainer.export.manifest import lint
from edgeveil.trainer.graphs.files import read
from edgeveil.trainer.graphs.macs import keras_macs
from edgeveil.trainer.perturbers.prgan import Generator, build_generator
from edgeveil.trainer.recipe.schema import Recipe
from tests.support import seeds

# MACs and parameters in Table 3 of paper 001, by data set; faces stand in for PubFig, depth for OccuTherm.
TABLE_3 = {"mnist": (1.6e6, 235.4e3), "wifi": (2.1e6, 1.1e6), "faces": (232e6, 644.2e3), "depth": (96.4e6, 420.3e3)}

SHAPES = {"mnist": (28, 28, 1), "wifi": (520,), "faces": (48, 42, 1), "depth": (40, 32, 1)}


def of_the_paper(name):
    """Digits are not in it, and simulated people are perturbed at the paper's own size, for speed's sake."""
    recipe = Recipe.find(name)
    return hasattr(recipe.perturber, "generator") and recipe.data.source in TABLE_3


@pytest.mark.parametrize("name", [name for name in Recipe.names() if of_the_paper(name)])
def test_every_generator_takes_half_of_the_papers_budget(name):
    recipe = Recipe.find(name)
    shape = SHAPES[recipe.data.source]
    spec = InputSpec("image" if len(shape) == 3 else "vector", shape, "uint8", 0.0, 255.0)
    noise = getattr(recipe.perturber, "noise", 0)
    found = keras_macs(build_generator(spec, recipe.perturber.generator, noise=noise))
    macs, parameters = TABLE_3[recipe.data.source]
    assert 0 < found.macs <= macs / 2
    assert 0 < found.parameters <= parameters / 2


@pytest.mark.parametrize(("shape", "halvings"), [((28, 28, 1), 2), ((8, 8, 1), 1), ((9, 14, 3), 1), ((33, 17, 2), 3)])
def test_a_conv_generator_keeps_the_shape_and_starts_near_the_identity(shape, halvings):
    model = conv_generator(shape, width=8, halvings=halvings, blocks=1)
    u = np.random.default_rng(0).random((3, *shape), np.float32)
    v = np.asarray(model(u))
    assert v.shape == u.shape
    assert np.abs(v - u).max() < 0.5
    assert [t.name for t in model.inputs] == ["image"]
    assert model.output_names == ["output"]


@pytest.mark.parametrize(("shape", "halvings"), [((32, 2), 2), ((101, 6), 3)])
def test_a_generator_of_series_works_over_time_alone(shape, halvings):
    model = series_generator(shape, width=8, halvings=halvings, blocks=1)
    u = np.random.default_rng(0).random((3, *shape), np.float32)
    v = np.asarray(model(u))
    assert v.shape == u.shape
    assert np.abs(v - u).max() < 0.5
    assert ([t.name for t in model.inputs], model.output_names) == (["series"], ["output"])
    assert adversaries.series_discriminator(shape)(u).shape == (3, 1)
    noisy = series_generator(shape, width=8, halvings=halvings, blocks=1, noise=4)
    one, other = (np.asarray(noisy([u, np.full((3, 4), value, np.float32)])) for value in (0, 1))
    assert not np.array_equal(one, other)


def test_a_generator_of_series_is_int8_that_an_accelerator_takes():
    model = series_generator((32, 2), width=8, halvings=2, blocks=1)
    rows = np.random.default_rng(0).random((16, 32, 2), np.float32)
    rows[0], rows[1] = 0, 1
    data = TfLite().convert(model, ("int8",), {"series": rows})["int8"]
    assert lint(read(data, "tflite"), "int8", profiles.load("coral-dev-board")) == []


def test_outputs_lie_in_the_unit_cube_whatever_the_weights():
    for model, shape in (
        (series_generator((16, 3), width=8, halvings=1, blocks=1), (16, 3)),
        (conv_generator((8, 8, 1), width=8, halvings=1, blocks=1), (8, 8, 1)),
        (mlp_generator(12, width=16, blocks=2), (12,)),
    ):
        for variable in model.trainable_variables:
            variable.assign(10 * np.random.default_rng(0).normal(size=variable.shape))
        v = np.asarray(model(np.random.default_rng(1).random((50, *shape), np.float32)))
        assert (v.min(), v.max()) == (0.0, 1.0)


def test_a_saved_generator_comes_back_the_same(tmp_path):
    model = conv_generator((8, 8, 1), width=8, halvings=1, blocks=1, returns=True)
    model.save(tmp_path / "generator.keras")
    again = keras.models.load_model(tmp_path / "generator.keras")
    u = np.random.default_rng(0).random((3, 8, 8, 1), np.float32)
    np.testing.assert_array_equal(np.asarray(model(u)), np.asarray(again(u)))
    assert again.get_layer("output").returns


def test_resize_repeats_each_value():
    from edgeveil.models.layers import ResizeNearest

    x = np.arange(4, dtype=np.float32).reshape(1, 2, 2, 1)
    wide = np.asarray(ResizeNearest(4, 4)(x))[0, :, :, 0]
    np.testing.assert_array_equal(wide, np.kron(x[0, :, :, 0], np.ones((2, 2))))


def test_table_1_is_as_printed():
    """Table 1: Conv(64,5,5) twice, FC(128), FC(2) for MNIST; FC(256), FC(128), FC(64), FC(Dim(Y)) for WiFi."""
    mnist = classifiers.table1_mnist((28, 28, 1), 2)
    kernels = [tuple(w.shape) for w in mnist.trainable_variables if len(w.shape) > 1]
    assert kernels == [(5, 5, 1, 64), (5, 5, 64, 64), (20 * 20 * 64, 128), (128, 2)]
    wifi = classifiers.table1_wifi(520, 13)
    kernels = [tuple(w.shape) for w in wifi.trainable_variables if len(w.shape) > 1]
    assert kernels == [(520, 256), (256, 128), (128, 64), (64, 13)]
    rates = [layer.rate for layer in mnist.layers if isinstance(layer, keras.layers.Dropout)]
    assert rates == [0.25, 0.5]


@pytest.mark.parametrize("shape", [(8, 8, 1), (28, 28, 1), (48, 42, 3), (180, 180, 1)])
def test_the_small_classifier_and_the_discriminator_take_any_image(shape):
    u = np.zeros((2, *shape), np.float32)
    model = classifiers.small(shape, 5, width=8)
    assert model(u).shape == (2, 5)
    assert model.output_names == ["logits"]
    assert model.count_params() < 400_000
    assert adversaries.conv_discriminator(shape)(u).shape == (2, 1)


def test_vectors_have_their_own_networks():
    u = np.zeros((2, 7), np.float32)
    assert mlp_generator(7, width=8, blocks=1)(u).shape == (2, 7)
    assert adversaries.mlp_discriminator(7)(u).shape == (2, 1)


def test_a_noise_input_joins_and_bits_start_as_they_are():
    u = (np.random.default_rng(0).random((20, 30)) < 0.5).astype(np.float32)
    model = mlp_generator(30, width=16, blocks=1, noise=4)
    assert [t.name for t in model.inputs] == ["features", "noise"]
    v = np.asarray(model([u, np.random.default_rng(1).random((20, 4), np.float32)]))
    np.testing.assert_array_equal(np.rint(v), u)
    picture = conv_generator((9, 14, 1), width=8, halvings=1, blocks=1, noise=4)
    x = np.random.default_rng(0).random((3, 9, 14, 1), np.float32)
    one, other = (np.asarray(picture([x, np.full((3, 4), value, np.float32)])) for value in (0, 1))
    assert one.shape == x.shape
    assert not np.array_equal(one, other)


def test_nothing_goes_past_a_narrow_place():
    """Readings that give the same ``latent`` numbers come out alike."""
    model = mlp_generator(12, width=16, blocks=1, latent=2, noise=3)
    u, drawn = np.random.default_rng(0).random((40, 12), np.float32), np.full((40, 3), 0.5, np.float32)
    narrow = keras.Model(model.inputs, model.get_layer("narrow").output)
    assert narrow([u, drawn]).shape == (40, 2)
    for variable in model.get_layer("narrow").variables:
        variable.assign(np.zeros(variable.shape))
    v = np.asarray(model([u, drawn]))
    assert np.abs(v - v[0]).max() == 0
    assert 0 < v.min() < v.max() < 1


def test_a_clip_that_returns_has_a_slope_wherever_a_step_leads_back():
    x = tf.constant([-0.5, 0.5, 1.5])

    def slopes(clip, sign):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = sign * tf.reduce_sum(clip(x, training=True))
        return tape.gradient(loss, x).numpy().tolist()

    # Descent makes x larger where the slope is negative.
    assert slopes(UnitClip(returns=True), -1) == [-1, -1, 0]
    assert slopes(UnitClip(returns=True), 1) == [0, 1, 1]
    assert slopes(UnitClip(), -1) == [0, -1, 0]
    for training in (False, True):
        assert UnitClip(returns=True)(x, training=training).numpy().tolist() == [0, 0.5, 1]


def test_a_generator_whose_clip_returns_comes_back_from_black():
    """Against adversaries that learn it is driven there in some 40 steps, and stayed for good."""
    keras.utils.set_random_seed(seeds.seed(0))
    generator = conv_generator((8, 8, 1), width=8, halvings=1, blocks=1, noise=2, returns=True)
    generator.get_layer("change").bias.assign([-2.0])
    u, noise = tf.random.uniform((16, 8, 8, 1), 0.1, 0.9, seed=1), tf.random.uniform((16, 2), seed=2)
    assert float(tf.reduce_max(generator([u, noise]))) == 0
    optimizer = keras.optimizers.Adam(1e-2)
    optimizer.build(generator.trainable_variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(generator([u, noise], training=True) - u))
        optimizer.apply(tape.gradient(loss, generator.trainable_variables), generator.trainable_variables)
        return loss

    losses = [float(step()) for _ in range(150)]
    assert losses[-1] < 0.02


@pytest.mark.parametrize(
    ("spec", "architecture"),
    [
        (InputSpec("image", (8, 8, 1), "uint8", 0.0, 255.0), "conv"),
        (InputSpec("vector", (6,), "uint8", 0.0, 1.0), "mlp"),
    ],
)
@pytest.mark.parametrize("noise", [0, 3])
def test_the_recipes_clip_is_the_generators(spec, architecture, noise):
    def made(clip):
        section = Generator(architecture=architecture, width=8, halvings=1, blocks=1, clip=clip)
        return build_generator(spec, section, noise=noise).get_layer("output").returns

    assert (made("returns"), made(None)) == (True, False)
