"""DP-SGD: the lots and the noise are what is accounted for, and a network learns with them."""

import keras
import numpy as np
import pytest
from scipy import stats

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext.private import noise
from edgeveil.trainer.ext.private.noise import Secret, Seeded


def planned(**settings):
    return noise.plan(
        **{"units": 1000, "epsilon": 8.0, "delta": 1e-5, "lot": 100, "steps": 50, "clip": 0.5, **settings}
    )


def test_lots_are_binomial_and_units_independent():
    made = planned(steps=400)
    lots = list(noise.lots(made, Seeded(0)))
    sizes = np.array([len(lot) for lot in lots])
    edges = np.array([-1, 88, 94, 97, 100, 103, 106, 112, 1000])
    expected = np.diff(stats.binom.cdf(edges, 1000, 0.1)) * len(lots)
    found = np.histogram(sizes, edges + 0.5)[0]
    assert stats.chisquare(found, expected).pvalue > 1e-4
    together = sum({0, 1} <= set(lot) for lot in lots)
    assert abs(together - 400 * 0.01) < 5 * np.sqrt(4)


def test_the_noise_has_the_deviation_of_the_claim():
    made = planned()
    (mean,) = noise.noisy_mean([np.zeros(40_000)], made, Seeded(1))
    assert stats.kstest(mean * made.lot / (made.claim.sigma * made.clip), stats.norm.cdf).pvalue > 1e-4


def test_of_a_person_in_a_lot_one_reading_is_drawn_each_as_likely():
    rows = [np.array([5]), np.array([7, 8, 9])]
    drawn = [noise.readings_of(np.array([0, 1]), rows, Secret()) for _ in range(3000)]
    assert {int(one[0]) for one in drawn} == {5}
    counts = [sum(one[1] == row for one in drawn) for row in (7, 8, 9)]
    assert stats.chisquare(counts).pvalue > 1e-9  # secret noise differs in every run


def blobs(n=4000):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    return (rng.normal(size=(n, 6)) + 1.5 * y[:, None]).astype(np.float32), y


def network():
    keras.utils.set_random_seed(0)
    vector = keras.Input((6,))
    return keras.Model(vector, keras.layers.Dense(2)(keras.layers.Dense(8, activation="relu")(vector)))


def cross_entropy(outputs, labels):
    import tensorflow as tf

    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs)


def test_a_network_learns_and_every_step_is_told():
    x, y = blobs()
    model, told = network(), []
    made = planned(units=4000, lot=200, steps=60, clip=1.0)
    settings = {"rows": np.arange(4000)[:, None], "optimizer": keras.optimizers.Adam(0.02), "noise": Seeded(2)}
    noise.train(model, x, y, cross_entropy, made, **settings, after=told.append)
    assert told == list(range(1, 61))
    assert (np.array(model(x)).argmax(1) == y).mean() > 0.9


def test_a_lot_that_is_larger_than_its_room_is_summed_in_parts():
    """Without noise to speak of, one step with room for 30 is the step with room for all."""
    x, y = blobs(300)

    class Small(noise.Plan):
        room = 30

    after = []
    for kind in (noise.Plan, Small):
        made = planned(units=300, lot=250, steps=1, delta=1e-4)
        made = kind(made.units, made.lot, 1, made.clip, made.claim)
        model = network()
        settings = {"rows": np.arange(300)[:, None], "optimizer": keras.optimizers.SGD(1.0), "noise": Seeded(3)}
        noise.train(model, x, y, cross_entropy, made, **settings)
        after.append(model.get_weights())
    for one, other in zip(*after, strict=True):
        assert np.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"delta": 1e-3}, "below 1 / 1,000"),
        ({"delta": 0.0}, "above 0"),
        ({"lot": 1001}, "lots of 1 to 1,000"),
        ({"clip": 0.0}, "clip above 0"),
        ({"epsilon": 60.0}, "up to 50"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, said):
    with pytest.raises(BadInput, match=said):
        planned(**settings)


def test_few_units_are_refused():
    x, y = blobs(80)
    made = planned(units=80, lot=10, delta=1e-3)
    with pytest.raises(BadInput, match="at least 100 units"):
        noise.train(network(), x, y, cross_entropy, made, rows=np.arange(80)[:, None], optimizer=None, noise=Seeded(0))
