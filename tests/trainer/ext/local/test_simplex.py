"""The nearest distribution, against a search over all of them."""

import numpy as np
import pytest
from scipy import optimize

from edgeveil.trainer.ext.local.collect import project


@pytest.mark.parametrize(
    ("shares", "nearest"),
    [([0.2, 0.8], [0.2, 0.8]), ([1.4, 0.2], [1, 0]), ([0.7, 0.7], [0.5, 0.5]), ([-0.1, 0.5, 0.5], [0, 0.5, 0.5])],
)
def test_by_hand(shares, nearest):
    assert project(np.array(shares)) == pytest.approx(nearest)


def test_no_distribution_is_nearer():
    shares = np.random.default_rng(0).normal(0.2, 0.4, 5)
    found = optimize.minimize(
        lambda p: ((p - shares) ** 2).sum(),
        np.full(5, 0.2),
        bounds=[(0, 1)] * 5,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        tol=1e-12,
    )
    assert project(shares) == pytest.approx(found.x, abs=1e-5)
