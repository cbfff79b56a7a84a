"""Each adversary of series finds what is planted for it, and nothing where there is nothing."""

from dataclasses import replace

import numpy as np
import pytest

from edgeveil.trainer.attacks.families.cnn import PlainCNN
from edgeveil.trainer.attacks.families.mlp import BatchNormMLP
from edgeveil.trainer.attacks.families.nearest import NearestInShape, dtw
from edgeveil.trainer.attacks.families.network import SeriesCNN, SeriesGRU
from edgeveil.trainer.attacks.families.signal_boosting import SignalBoosting, signal_features
from edgeveil.trainer.attacks.families.transfer import trunk_for
from edgeveil.trainer.attacks.problem import BUDGETS, Problem, Released, cut
from edgeveil.trainer.datasets.base import InputSpec, Sampling
from edgeveil.trainer.measures import attack_metrics
from tests.support.once import nightly_but

STEPS, CHANNELS, N = 32, 2, 450
SPEC = InputSpec(
    "series", (STEPS, CHANNELS), "float32", (-3.0,) * 2, (3.0,) * 2, Sampling(20.0, ("a", "b"), ("g", "g"))
)
FAMILIES = (SeriesCNN(), SeriesGRU(), SignalBoosting(), NearestInShape())


def problem(planted):
    """Windows whose phase is anywhere; where ``planted``, z is how fast the second channel swings."""
    rng = np.random.default_rng(4)
    y, z = rng.integers(0, 2, N), rng.integers(0, 2, N)
    t, phase = np.arange(STEPS)[None] / 20.0, rng.uniform(0, 2 * np.pi, (N, 2))
    speed = 8.0 + (4.0 * z if planted else 0)
    first = np.sin((5 + 6 * y[:, None]) * t + phase[:, :1])
    second = np.sin(speed[:, None] * t + phase[:, 1:]) if planted else np.sin(8 * t + phase[:, 1:])
    x = np.stack([first, second], axis=2) + rng.normal(0, 0.1, (N, STEPS, CHANNELS))
    everything = Released(x.astype(np.float32), y, z)
    seen, test = everything.take(np.arange(300)), everything.take(np.arange(300, N))
    fit, stop, choose = cut(seen, 0)
    theta = np.full((2, 2), 0.5)
    counted = attack_metrics.counted_prior(seen.y, seen.z, theta.shape)
    return Problem(SPEC, theta, counted, fit, stop, choose, test, replace(BUDGETS["quick"], epochs=8, trees=30))


def right(family, asked):
    answers = family.fit(asked, 0).probabilities(asked.test)
    assert answers.shape == (150, 2)
    np.testing.assert_allclose(answers.sum(axis=1), 1, atol=1e-5)
    return (answers.argmax(axis=1) == asked.test.z).mean()


@pytest.mark.parametrize("family", nightly_but(FAMILIES, FAMILIES[0], *FAMILIES[2:]), ids=lambda family: family.name)
def test_what_is_planted_is_found(family):
    asked = problem(planted=True)
    assert family.why_not(asked) is None
    assert right(family, asked) > 0.8


@pytest.mark.parametrize(
    "family", nightly_but((FAMILIES[0], *FAMILIES[2:]), *FAMILIES[2:]), ids=lambda family: family.name
)
def test_nothing_is_found_where_nothing_is(family):
    assert right(family, problem(planted=False)) < 0.71  # five deviations of a coin over 150 throws


def test_of_the_others_pictures_alone_are_left_out():
    asked = problem(planted=False)
    assert PlainCNN().why_not(asked) == "x is a series, not a picture"
    assert BatchNormMLP().why_not(asked) is None
    assert trunk_for(asked) is SeriesCNN.trunk


def test_a_bent_clock_costs_little_and_another_shape_much():
    t = np.linspace(0, 1, 32)
    wave = np.sin(2 * np.pi * 2 * t)[:, None]
    bent = np.sin(2 * np.pi * 2 * t**1.15)[:, None]
    other = np.sin(2 * np.pi * 5 * t)[:, None]
    same, warped, far = dtw(wave, np.stack([wave, bent, other]))
    assert same == 0
    assert warped < 0.5 * np.sqrt(((wave - bent) ** 2).sum())
    assert far > 3 * warped


def test_no_step_is_matched_beyond_the_band():
    early, late = np.zeros((32, 1)), np.zeros((32, 1))
    early[4], late[26] = 1.0, 1.0
    assert dtw(early, late[None])[0] == pytest.approx(np.sqrt(2))


def test_features_are_finite_for_a_signal_that_rests():
    still = signal_features(np.zeros((3, STEPS, CHANNELS), np.float32))
    moved = signal_features(problem(planted=True).test.x)
    assert np.isfinite(still).all()
    assert still.shape[1] == moved.shape[1]
