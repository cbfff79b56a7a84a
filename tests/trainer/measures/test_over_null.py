"""The interval of bits over the null covers the truth, by unit, and does not count the plug-in's bias twice."""

import numpy as np
import pytest

from edgeveil.trainer.measures import certificate
from edgeveil.trainer.measures.certificate import over_null
from edgeveil.trainer.measures.intervals import Interval

CLASSES, CODES = (2, 3), 16
Q = np.eye(CODES)


def population(leak: float, seed: int) -> np.ndarray:
    """P(y, c, z): eight codes to each of two y."""
    rng = np.random.default_rng(seed)
    p = np.zeros((2, CODES, 3))
    for y in range(2):
        tilt = (1 - leak) * np.array([0.5, 0.3, 0.2]) + leak * rng.dirichlet(np.ones(3), 8)
        p[y, 8 * y : 8 * y + 8] = rng.dirichlet(np.full(8, 6.0))[:, None] * tilt
    return p / p.sum()


def drawn(p: np.ndarray, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    return list(np.unravel_index(rng.choice(p.size, n, p=p.ravel()), p.shape))


def interval(y, code, z, rng, cluster=None, resamples=100) -> Interval:
    design = {"q": Q, "classes": CLASSES, "rng": rng, "cluster": cluster}
    null = certificate.null_distribution(y, code, z, shuffles=40, **design)[:, 1].mean()
    return over_null(y, code, z, null_bits=null, resamples=resamples, **design)


@pytest.mark.parametrize(("leak", "rows"), [(0.0, 300), (0.1, 2000), (0.7, 300), (0.7, 2000)])
def test_the_interval_covers_the_truth(leak, rows):
    rng, covered = np.random.default_rng(0), 0
    for seed in range(60):
        p = population(leak, seed)
        found = interval(*drawn(p, rows, rng), rng)
        covered += found.low <= certificate.information(p) <= found.high
    assert covered >= 51  # of 60 at 95 %: 57; fewer than 51 has a chance of 1 in 300


def test_the_bias_of_the_plug_in_is_counted_once():
    """300 rows in 96 cells without a leak: the plug-in finds .07 bits. Left in, they would be above the interval."""
    rng = np.random.default_rng(1)
    found = [interval(*drawn(population(0.0, 0), 300, rng), rng) for _ in range(20)]
    assert abs(np.mean([one.estimate for one in found])) < 0.01
    middle = np.mean([(one.low + one.high) / 2 - one.estimate for one in found])
    assert abs(middle) < 0.015  # a bootstrap about the estimate would lie .07 higher


def test_copies_of_rows_in_one_unit_say_no_more_than_one():
    rng = np.random.default_rng(2)
    y, code, z = drawn(population(0.7, 3), 400, rng)
    alone = interval(y, code, z, np.random.default_rng(0), resamples=200)
    ten = [np.repeat(labels, 10) for labels in (y, code, z)]
    by_unit = interval(*ten, np.random.default_rng(0), cluster=np.repeat(np.arange(400), 10), resamples=200)
    by_row = interval(*ten, np.random.default_rng(0), resamples=200)
    assert by_unit.high - by_unit.low == pytest.approx(alone.high - alone.low, rel=0.02)
    assert by_row.high - by_row.low < 0.5 * (alone.high - alone.low)


def test_a_code_that_is_z_tells_all_of_it_and_one_unit_nothing():
    z = np.arange(900) % 3
    found = interval(np.zeros(900, int), z, z, np.random.default_rng(0))
    assert found.estimate == pytest.approx(np.log2(3), abs=0.01)
    assert found.high < np.log2(3) + 0.02
    alone = interval(np.zeros(9, int), z[:9], z[:9], np.random.default_rng(0), cluster=np.zeros(9, int))
    assert alone[1:] == (-np.inf, np.inf)
