"""Counted (epsilon, delta)-Pufferfish against the exact law of channels that are known."""

import numpy as np
import pytest

from edgeveil.trainer.measures.pufferfish import EPSILONS, counted

THETA = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
CODES = 6


def channel(rng: np.random.Generator, spread: float) -> np.ndarray:
    """P(c' | y, z), (2, 3, codes): further from each other with a larger ``spread``."""
    logits = rng.normal(size=(2, 1, CODES)) + spread * rng.normal(size=(2, 3, CODES))
    laws = np.exp(logits)
    return laws / laws.sum(axis=2, keepdims=True)


def drawn(laws: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes of n rows."""
    y = rng.integers(0, 2, n)
    z = (rng.random((n, 1)) > THETA[y].cumsum(axis=1)).sum(axis=1)
    code = (rng.random((n, 1)) > laws[y, z].cumsum(axis=1)).sum(axis=1)
    return y, code, z


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - np.exp(epsilon) * q, 0).sum())


def exact(laws: np.ndarray, epsilon: float) -> tuple[float, float]:
    """The least delta over the prior, and over every prior with its supports."""
    by_prior, by_support = [], []
    for y in range(2):
        for a in range(3):
            rest = np.delete(THETA[y], a) / np.delete(THETA[y], a).sum()
            mixture = rest @ np.delete(laws[y], a, axis=0)
            by_prior += [hockey_stick(laws[y, a], mixture, epsilon), hockey_stick(mixture, laws[y, a], epsilon)]
            by_support += [hockey_stick(laws[y, a], laws[y, b], epsilon) for b in range(3) if b != a]
    return max(by_prior), max(by_support)


def bounded(laws: np.ndarray, n: int, seed: int, **settings: object):
    rng = np.random.default_rng(seed)
    y, code, z = drawn(laws, n, rng)
    return counted(y, code, z, shape=(2, CODES, 3), theta=THETA, rng=rng, **settings)


@pytest.mark.nightly  # by day the exact law, below
@pytest.mark.parametrize("spread", [0.0, 0.2, 1.0])
def test_the_bounds_hold_at_once_in_nearly_every_sample(spread):
    laws = channel(np.random.default_rng(1), spread)
    ratio = np.log(laws.max(axis=1) / laws.min(axis=1)).max()
    truths = [exact(laws, epsilon) for epsilon in EPSILONS]
    broken = 0
    for seed in range(25):
        one = bounded(laws, 3000, seed)
        held = [
            bound.delta >= truth
            for bounds, which in ((one.prior, 0), (one.supports, 1))
            for bound, truth in zip(bounds, (both[which] for both in truths), strict=True)
        ]
        broken += not (all(held) and (one.codes.epsilon >= ratio or one.codes.delta > 0))
    assert broken <= 1


def test_codes_of_another_y_are_errors_and_left_to_delta_with_all_that_are_rare():
    """Two codes of each y, 60 that hardly come, and a y that is classified wrong for .01 to .03 by z: a ratio of 3."""
    laws, label = np.full((2, 3, 64), 0.002 / 60), np.arange(64) // 2
    for y in range(2):
        for z, wrong in enumerate((0.01, 0.02, 0.03)):
            laws[y, z, 2 * y : 2 * y + 2] = (0.998 - wrong) * np.array([0.5 + 0.02 * z, 0.5 - 0.02 * z])
            laws[y, z, 2 - 2 * y : 4 - 2 * y] = wrong / 2
    truth = np.log(laws[0, 2, 0] / laws[0, 0, 0]), np.log(laws[0, 0, 1] / laws[0, 2, 1])
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y, code, z = drawn(laws, 40_000, rng)
        found = counted(y, code, z, shape=(2, 64, 3), theta=THETA, label=label, rng=rng).codes
        assert max(truth) <= found.epsilon < max(truth) + 0.35
        assert 0.032 <= found.delta < 0.1  # the ends of 62 codes add up to .2


def test_with_more_rows_the_bounds_close_on_the_exact_law():
    laws = channel(np.random.default_rng(2), 0.5)
    for epsilon, by_prior, by_support in zip(
        EPSILONS, *(lambda one: (one.prior, one.supports))(bounded(laws, 400_000, 0)), strict=True
    ):
        truth = exact(laws, epsilon)
        assert 0 <= by_prior.delta - truth[0] < 0.03
        assert 0 <= by_support.delta - truth[1] < 0.03


def test_the_loss_of_every_code_closes_on_the_largest_log_ratio():
    laws = channel(np.random.default_rng(2), 0.5)
    ratio = np.log(laws.max(axis=1) / laws.min(axis=1)).max()
    codes = bounded(laws, 400_000, 0).codes
    assert codes.delta == 0
    assert ratio <= codes.epsilon < ratio + 0.15


def test_a_larger_epsilon_never_has_a_larger_delta():
    one = bounded(channel(np.random.default_rng(3), 0.2), 2000, 0)
    for losses in (one.prior, one.supports):
        assert [loss.delta for loss in losses] == sorted((loss.delta for loss in losses), reverse=True)


def test_more_tried_configurations_widen_the_bounds():
    laws = channel(np.random.default_rng(3), 0.2)
    one, many = bounded(laws, 5000, 0), bounded(laws, 5000, 0, tried=25)
    assert all(a.delta < b.delta for a, b in zip(one.supports, many.supports, strict=True))
    assert one.codes.epsilon < many.codes.epsilon


def test_rows_of_one_unit_count_as_one_row():
    laws = channel(np.random.default_rng(4), 0.2)
    rng = np.random.default_rng(0)
    y, code, z = drawn(laws, 2000, rng)
    repeated = [np.repeat(part, 5) for part in (y, code, z)]
    unit = np.repeat(np.arange(2000), 5)
    settings = {"shape": (2, CODES, 3), "theta": THETA}
    alone = counted(y, code, z, rng=np.random.default_rng(1), **settings)
    five = counted(*repeated, cluster=unit, rng=np.random.default_rng(1), **settings)
    assert five.units == alone.units == 2000
    for a, b in zip(alone.supports, five.supports, strict=True):
        assert a.delta == pytest.approx(b.delta)
    assert five.codes.epsilon >= alone.codes.epsilon - 1e-9


def test_a_pair_of_y_and_z_that_was_hardly_counted_gets_no_bound():
    laws = channel(np.random.default_rng(4), 0.2)
    few = bounded(laws, 200, 0)
    assert few.fewest < 30
    assert few.codes is None
    assert few.prior == few.supports == ()
