"""Digits that this program draws: every one can be read, each as often as the others, by a hand that is not its own."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from edgeveil.trainer.datasets.loaders import drawn
from edgeveil.trainer.measures.per_code import moments


@pytest.fixture(scope="module")
def some():
    """3,000 digits and their pictures."""
    digit = np.arange(3000) % 10
    return digit, drawn.draw(digit, np.random.default_rng(5))


def test_digits_are_read_by_their_likeness_to_others(some):
    digit, x = some
    assert (x.shape, x.dtype, x.min(), x.max()) == ((3000, 8, 8), np.uint8, 0, 16)
    flat = x.reshape(len(x), -1)
    near = KNeighborsClassifier(3).fit(flat[:2000], digit[:2000])
    right = near.predict(flat[2000:]) == digit[2000:]
    assert min(right[digit[2000:] == one].mean() for one in range(10)) > 0.8


def test_hands_differ_within_each_digit_more_than_digits_do(some):
    digit, x = some
    ink, slant, stroke = moments(x[..., None] / drawn.HIGH).T
    for values in (ink, slant, stroke):
        means = np.array([values[digit == one].mean() for one in range(10)])
        assert values.std() ** 2 > 2 * means.std() ** 2


def test_the_whole_set_is_the_same_each_time_and_even():
    digit, x = drawn._all()
    assert np.bincount(digit).tolist() == [drawn.ROWS // 10] * 10
    drawn._all.cache_clear()
    again = drawn._all()
    assert np.array_equal(digit, again[0])
    assert np.array_equal(x, again[1])
    assert len(np.unique(x, axis=0)) > 0.99 * drawn.ROWS
