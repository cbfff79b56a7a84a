"""Class pictures of the Gaussian mechanism: what one unit can move is bounded, and the noise is what was asked."""

import numpy as np
import pytest
from scipy import stats

from edgeveil.trainer.ext.private.noise import Secret, Seeded, bounded_sums, noisy_means

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
