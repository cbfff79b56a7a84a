"""No cluster and no row is in two hands, and what an adversary is shown is what left."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.fixed import masked
from edgeveil.trainer.attacks.families.lowbits import screened
from edgeveil.trainer.attacks.problem import Released, cut, joined


def released(n: int, cluster: np.ndarray | None = None) -> Released:
    rng = np.random.default_rng(0)
    x = np.arange(n, dtype=np.float32)[:, None]
    return Released(x, rng.integers(0, 2, n), rng.integers(0, 3, n), cluster)


def test_every_row_is_cut_into_exactly_one_part():
    parts = cut(released(1000), seed=0)
    assert sorted(np.concatenate([part.x[:, 0] for part in parts])) == list(range(1000))
    assert [len(part) / 1000 for part in parts] == pytest.approx([0.70, 0.12, 0.18], abs=0.01)
    everything = np.bincount(released(1000).y * 3 + released(1000).z) / 1000
    for part in parts:  # stratified by (y, z)
        assert np.bincount(part.y * 3 + part.z) / len(part) == pytest.approx(everything, abs=0.02)


def test_clusters_never_straddle_parts():
    parts = cut(released(1000, np.repeat(np.arange(50), 20)), seed=0)
    seen = [set(part.cluster) for part in parts]
    assert len(seen[0] | seen[1] | seen[2]) == sum(len(part) for part in seen) == 50


def test_another_seed_is_another_cut_and_the_same_one_is_not():
    one, again, other = (cut(released(500), seed=seed)[2].x for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_choosing_rows_stay_few_on_large_data():
    fit, stop, choose = cut(released(200_000), seed=0)
    assert len(stop) <= 4100
    assert len(choose) <= 8100
    assert len(fit) >= 187_000


@pytest.mark.parametrize("part", [released(59), released(90, np.repeat(np.arange(9), 10))], ids=["rows", "clusters"])
def test_too_little_to_attack_is_said(part):
    with pytest.raises(BadInput, match="Give more data"):
        cut(part, seed=0)


def test_ten_clusters_are_enough_to_cut():
    parts = cut(released(100, np.repeat(np.arange(10), 10)), seed=3)
    assert min(len(part) for part in parts) > 0


def test_joined_keeps_rows_with_their_labels():
    both = joined(released(3), released(2))
    assert both.x[:, 0].tolist() == [0, 1, 2, 0, 1]
    assert both.y.tolist() == released(3).y.tolist() + released(2).y.tolist()


def test_low_bits_of_integers_and_floats():
    bytes_ = Released(np.array([[0, 1, 2, 7]], np.uint8), np.zeros(1, int), np.zeros(1, int))
    assert features.low_bits(bytes_).tolist() == [[0, 1, 0, 1, 0, 0, 1, 1]]
    floats = np.array([[1.0, np.nextafter(np.float32(1), np.float32(2))]], np.float32)
    assert features.low_bits(Released(floats, np.zeros(1, int), np.zeros(1, int)))[0, :2].tolist() == [0, 1]


@pytest.mark.parametrize("scale", [1 / 255, 0.1, 1.0], ids=str)
def test_floats_on_even_steps_are_numbered(scale):
    rng = np.random.default_rng(0)
    level = rng.integers(0, 256, (50, 30))
    x = (level * scale - 1.7).astype(np.float32)
    found = features.Levels.from_samples(x)
    assert found is not None
    assert np.array_equal(found.number(x), level - level.min())
    near = np.nextafter(x, np.where(rng.random(x.shape) < 0.5, x, np.inf)).astype(np.float32)  # the last digit tells
    assert np.array_equal(features.Levels.from_samples(near).number(near), level - level.min())
    assert features.Levels.from_samples(rng.normal(size=(50, 30))) is None
    assert features.Levels.from_samples(np.full((5, 3), 0.5)) is None
    assert features.Levels.from_samples(np.array([[0.0, np.inf]])) is None


def test_screening_finds_the_bit_that_depends_on_z_given_y_not_on_y():
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, 2000), rng.integers(0, 2, 2000)
    bits = rng.integers(0, 2, (2000, 300)).astype(np.uint8)
    bits[:, 7], bits[:, 8] = y, z ^ y
    assert 8 in screened(bits, y, z, kept=5)
    assert 7 not in screened(bits, y, z, kept=5)


def test_standardised_features_stay_bounded_and_constants_stay_zero():
    fitted = np.stack([np.zeros(100), np.arange(100) % 2 * 1e-3], axis=1).astype(np.float32)
    standard = features.Standard.fit(fitted)
    assert standard.apply(fitted)[:, 0].tolist() == [0] * 100
    assert np.abs(standard.apply(fitted)[:, 1]) == pytest.approx(1)
    assert np.abs(standard.apply(np.full((1, 2), 1e6, np.float32))).max() <= 30


def test_the_fixed_adversary_never_names_a_z_that_the_prior_rules_out():
    probabilities = masked(np.array([[5.0, 1.0, 0.0]]), np.array([[0.0, 0.3, 0.7]]))
    assert probabilities[0, 0] == 0
    assert probabilities.argmax() == 1
    assert probabilities.sum() == pytest.approx(1)
