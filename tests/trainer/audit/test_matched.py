"""Rows in one order are found under noise, shuffled ones are not; films that are late or drift are found."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit.pairs import match, offset

RNG = np.random.default_rng(5)
X = RNG.integers(0, 256, (300, 6, 5, 1)).astype(np.uint8)


def test_rows_in_one_order_are_found_under_much_noise():
    noisy = X + RNG.normal(0, 300, X.shape)
    assert match(X, noisy, seed=0).matched


def test_rows_of_another_shape_are_found():
    assert match(X, X.mean(axis=(2, 3)), seed=0).matched


def test_shuffled_rows_are_not_matched():
    found = match(X, X[RNG.permutation(len(X))], seed=0)
    assert found.matched is False
    assert "not to be matched" in found.sentence


def test_a_constant_cannot_be_tested():
    assert match(X, np.zeros_like(X), seed=0).matched is None


def test_false_alarms_are_rare():
    found = [match(X[:120], RNG.permutation(X[:120]), seed=seed).matched for seed in range(12)]
    assert sum(map(bool, found)) <= 1


def film(frames: int) -> np.ndarray:
    """A bright spot that walks at random over 16 x 16 pixels."""
    rng = np.random.default_rng(8)
    place = np.clip(8 + np.cumsum(rng.normal(0, 1.2, (frames, 2)), axis=0) % 14 - 7, 0, 15)
    grid = np.mgrid[:16, :16].transpose(1, 2, 0)
    return np.exp(-((grid[None] - place[:, None, None]) ** 2).sum(axis=-1) / 6)


@pytest.mark.parametrize("late", [0, 1, 4])
def test_a_film_that_is_late_is_found_under_mosaic(late):
    before = film(240)
    blocks = before.reshape(240, 4, 4, 4, 4).mean(axis=(2, 4)).repeat(4, axis=1).repeat(4, axis=2)
    after = np.concatenate([blocks[:1].repeat(late, axis=0), blocks])
    assert offset(before, after) == late


def test_films_that_drift_apart_are_refused():
    before = film(300)
    after = np.delete(before, [*range(110, 113), *range(210, 213)], axis=0)
    with pytest.raises(BadInput, match="drift apart"):
        offset(before, after)


def test_unrelated_films_have_no_offset():
    assert offset(film(200), RNG.random((200, 16, 16))) == 0
