"""Nothing that y alone tells counts as a leak, and overconfidence hides none."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from edgeveil.trainer.measures import attack_metrics

THETA = np.array([[0.4, 0.6], [0.7, 0.3]])


def rows(n: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return y, (rng.random(n) < THETA[y, 1]).astype(int)


def test_chance_guesses_the_best_z_of_each_y():
    y, z = rows()
    best = attack_metrics.chance(THETA, attack_metrics.counted_prior(y, z, THETA.shape), y, z)
    assert best.prior == best.majority == pytest.approx(np.mean(z == (y == 0)))


def test_a_tied_prior_counts_by_its_expectation():
    y, z = np.zeros(10, int), np.array([1] * 9 + [0])
    best = attack_metrics.chance(np.array([[0.5, 0.5]]), attack_metrics.counted_prior(y, z, (1, 2)), y, z)
    assert best == (0.5, 0.9)


def test_counted_prior_has_no_zero_and_finds_the_shares():
    y, z = rows()
    counted = attack_metrics.counted_prior(y, z, (3, 2))  # a y that never occurs
    assert counted.min() > 0
    assert counted.sum(axis=1) == pytest.approx(1)
    assert counted[:2] == pytest.approx(THETA, abs=0.03)


def test_auc_is_the_librarys_where_there_is_one_y():
    rng = np.random.default_rng(1)
    z = rng.integers(0, 2, 500)
    score = np.round(rng.random(500) + 0.3 * z, 1)  # with ties
    found = attack_metrics.auc_within_y(np.stack([1 - score, score], axis=1), np.zeros(500, int), z)
    assert found == pytest.approx(roc_auc_score(z, score))


def test_knowing_y_alone_is_an_auc_of_one_half_and_no_bits():
    y, z = rows()
    assert roc_auc_score(z, THETA[y, 1]) > 0.6  # what a pooled AUC would call a leak
    assert attack_metrics.auc_within_y(THETA[y], y, z) == pytest.approx(0.5)
    assert attack_metrics.bits_beyond(THETA, THETA[y], y, z).estimate == pytest.approx(0)


def test_auc_of_many_z_is_macro_one_versus_rest_within_y():
    z = np.array([0, 1, 2] * 50)
    assert attack_metrics.auc_within_y(np.eye(3)[z], np.zeros(150, int), z) == 1.0
    assert np.isnan(attack_metrics.auc_within_y(np.eye(3)[z], z, z))  # z determined by y: nothing to rank


def test_a_perfect_attack_learns_all_bits():
    y, z = rows()
    entropy = -np.mean(np.log2(THETA[y, z]))
    found = attack_metrics.bits_beyond(THETA, np.eye(2)[z], y, z)
    assert found.estimate == pytest.approx(entropy, abs=1e-3)
    assert found.low < found.estimate < found.high


def overconfident(y: np.ndarray, z: np.ndarray, right: float) -> np.ndarray:
    """Right with this probability, and certain every time."""
    guess = np.where(np.random.default_rng(2).random(len(z)) < right, z, 1 - z)
    return np.where(np.eye(2)[guess] > 0, 1 - 1e-6, 1e-6)


def test_overconfidence_does_not_hide_a_leak():
    y, z = rows()
    attack, base = overconfident(y, z, right=0.85), THETA[y]
    assert attack_metrics.bits_beyond(THETA, attack, y, z).estimate < 0
    calibrated = attack_metrics.calibrate(attack, base, z).apply(attack, base)
    # 1 bit of a fair-ish z less the entropy of an error rate of .15 that is independent of everything
    assert attack_metrics.bits_beyond(THETA, calibrated, y, z).estimate == pytest.approx(0.33, abs=0.05)


def test_noise_calibrates_to_no_leak_and_is_never_turned_round():
    y, z = rows()
    base = THETA[y]
    for attack in (overconfident(y, z, right=0.5), overconfident(y, z, right=0.1)):
        found = attack_metrics.calibrate(attack, base, z)
        assert found.a == pytest.approx(0, abs=0.02)
        assert attack_metrics.bits_beyond(THETA, found.apply(attack, base), y, z).estimate == pytest.approx(
            0, abs=0.005
        )
