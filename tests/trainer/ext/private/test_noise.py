"""The laws of the noise, and that nobody can repeat the secret one."""

import math

import numpy as np
import pytest
from scipy import stats

from edgeveil.trainer.ext.private.noise import Secret, Seeded

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
