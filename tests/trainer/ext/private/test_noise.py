"""The laws of the noise, and that nobody can repeat the secret one."""

import math
from dataclasses import replace

import keras
import numpy as np
import pytest
from scipy import stats

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext.private import noise
from edgeveil.trainer.ext.private.noise import Secret, Seeded, bounded_sums, noisy_means, shares
from edgeveil.trainer.recipe.private import Private

pytestmark = pytest.mark.usefixtures("coarse_accountant")
N = 40_000
BOTH = pytest.mark.parametrize("noise", [Secret(), Seeded(4)], ids=["secret", "seeded"])


@BOTH
@pytest.mark.parametrize(
    ("drawn", "law"),
    [
        (lambda noise: noise.uniform((N,)), stats.uniform()),
        (lambda noise: noise.gaussian((N,), 3.0), stats.norm(0, 3)),
        (lambda noise: noise.laplace(np.full(N, 5.0), 2.0), stats.laplace(5, 2)),
        (lambda noise: [np.linalg.norm(noise.radial(3, 2.0)) for _ in range(N // 10)], stats.gamma(3, scale=2)),
        (lambda noise: [noise.direction(3)[2] for _ in range(N // 10)], stats.uniform(-1, 2)),  # Archimedes
    ],
    ids=["uniform", "gaussian", "laplace", "length of a radial vector", "height of a direction"],
)
def test_it_has_the_law_it_says(noise, drawn, law):
    # The system's noise differs in every run: one in a billion fails for nothing.
    assert stats.kstest(drawn(noise), law.cdf).pvalue > 1e-9


@BOTH
def test_values_of_an_odd_count_are_independent(noise):
    values = noise.gaussian((9_999,), 1.0)
    assert values.shape == (9_999,)
    assert abs(np.corrcoef(values[:4_999], values[5_000:])[0, 1]) < 6 / math.sqrt(4_999)


def test_uniform_values_are_above_nothing_and_reach_one():
    class Words(Secret):
        class _stream:
            update = staticmethod(lambda count: b"\x00" * 8 + b"\xff" * (len(count) - 8))

        def __init__(self):
            pass

    assert Words().uniform((2,)).tolist() == [2.0**-53, 1.0]


def test_two_secret_streams_differ_and_two_seeds_do_not():
    assert (Secret().uniform((8,)) != Secret().uniform((8,))).all()
    assert (Seeded(1).gaussian((8,), 1.0) == Seeded(1).gaussian((8,), 1.0)).all()
    assert Secret().private
    assert not Seeded(1).private


# Class pictures of the Gaussian mechanism: what one unit can move is bounded, and the noise is what was asked.


RNG = np.random.default_rng(0)


def groups(number):
    return [np.flatnonzero(number == one) for one in np.unique(number)]


def test_a_unit_moves_the_sums_by_at_most_one_and_corners_of_the_cube_by_that():
    for kind in ("corners", "inside"):
        for readings in (1, 4):
            u = RNG.random((60, 5, 3, 1))
            u = np.round(u) if kind == "corners" else u
            labels, number = RNG.integers(0, 3, 60), np.arange(60) // readings
            if readings > 1:
                labels, u = labels[number * readings], u[number * readings]  # all that a person has is alike: the worst
            whole = bounded_sums(u, labels, 3, groups(number))
            for one in np.unique(number):
                kept = number != one
                without = bounded_sums(u[kept], labels[kept], 3, groups(number[kept]))
                moved = np.linalg.norm(whole - without)
                assert moved <= 1 + 1e-9
                assert kind == "inside" or moved == pytest.approx(1)


def test_without_noise_it_is_the_mean_of_each_class():
    u, labels = RNG.random((300, 4)), RNG.integers(0, 2, 300)
    found = noisy_means(u, labels, 2, groups(np.arange(300)), sigma=0.0, noise=Seeded(0))
    np.testing.assert_allclose(found, [u[labels == one].mean(axis=0) for one in (0, 1)], atol=1e-6)
    assert found.dtype == np.float32


def test_the_noise_on_the_sums_has_its_deviation():
    """Of 10,000 values in the middle of the cube, whose sums are 0."""
    u = np.full((1000, 10_000), 0.5, np.float32)
    found = noisy_means(u, np.zeros(1000, int), 1, groups(np.arange(1000)), sigma=3.0, noise=Secret())
    deviation = 3.0 * np.hypot(1, 0.5) * np.sqrt(10_000) / 2 / 1000
    assert deviation < 0.2  # few values are cut at the ends of the cube
    # The count is noised too, by a deviation of 7 in 1,000, which moves the statistic by less than 0.01.
    assert stats.kstest((found.ravel() - 0.5) / deviation, stats.norm.cdf).statistic < 0.05


def test_a_class_that_nobody_has_gives_a_picture_within_the_cube():
    found = noisy_means(np.zeros((5, 7)), np.zeros(5, int), 2, groups(np.arange(5)), sigma=5.0, noise=Secret())
    assert found.shape == (2, 7)
    assert (found >= 0).all()
    assert (found <= 1).all()


# The budget of [private]: its parts add up to what was asked, and what cannot be is refused.


ASKED = Private(epsilon=8.0, delta=1e-5, lot=64, steps=20)


def test_the_shares_add_up_to_the_budget_and_use_it():
    made = shares(ASKED.model_copy(update={"pictures": 0.25}), 1000)
    claims = made.encoder.claim, made.pictures
    assert [claim.epsilon for claim in claims] == pytest.approx([6.0, 2.0], rel=0.01)
    assert sum(claim.epsilon for claim in claims) <= 8.0
    assert sum(claim.delta for claim in claims) <= 1e-5 * (1 + 1e-12)
    assert (claims[0].rate, claims[0].steps) == (0.064, 20)
    assert (claims[1].rate, claims[1].steps) == (1.0, 1)


@pytest.mark.parametrize(
    ("changes", "units", "words"),
    [
        ({}, 99, "99 units.*100 are the fewest"),
        ({"delta": 0.01}, 100, "below 1 / 100"),
        ({"lot": 1001}, 1000, "at most the 1,000 units"),
    ],
)
def test_what_means_nothing_is_refused(changes, units, words):
    with pytest.raises(BadInput, match=words):
        shares(ASKED.model_copy(update=changes), units)


# DP-SGD: the lots and the noise are what is accounted for, and a network learns with them.


def planned(**settings):
    return noise.plan(
        **{"units": 1000, "epsilon": 8.0, "delta": 1e-5, "lot": 100, "steps": 50, "clip": 0.5, **settings}
    )


def sized(**sizes):
    """A plan of other sizes, of lots of a tenth too, with the noise of ``planned()``, which takes seconds to find."""
    return replace(planned(), **sizes)


def test_lots_are_binomial_and_units_independent():
    made = sized(steps=400)
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
    made = sized(units=4000, lot=400, steps=60, clip=1.0)
    settings = {"rows": np.arange(4000)[:, None], "optimizer": keras.optimizers.Adam(0.02), "noise": Seeded(2)}
    noise.train(model, x, y, cross_entropy, made, **settings, after=told.append)
    assert told == list(range(1, 61))
    assert (np.array(model(x)).argmax(1) == y).mean() > 0.9


def test_a_lot_that_is_larger_than_its_room_is_summed_in_parts():
    """Without noise to speak of, one step with room for 10 is the step with room for all."""
    x, y = blobs(300)

    class Small(noise.Plan):
        room = 10

    after = []
    for kind in (noise.Plan, Small):
        made = kind(300, 30, 1, 0.5, planned().claim)
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
    made = sized(units=80, lot=10)
    with pytest.raises(BadInput, match="at least 100 units"):
        noise.train(network(), x, y, cross_entropy, made, rows=np.arange(80)[:, None], optimizer=None, noise=Seeded(0))
