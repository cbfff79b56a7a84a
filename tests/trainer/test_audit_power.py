"""The audit is itself audited, on scikit-learn's digits: it finds what is there, and nothing where nothing is."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from trainer.audit import metrics
from trainer.audit.attack import Findings, attack_all
from trainer.audit.problem import BUDGETS, Problem, Released, cut
from trainer.audit.registry import adversaries
from trainer.datasets.base import InputSpec

DIGITS = InputSpec("image", (8, 8, 1), "uint8", 0.0, 16.0)
THETA = np.array([[0.6, 0.4], [0.4, 0.6]])  # of even digits 0 2 4 lie below five, of odd ones 1 3


def rows(seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pictures, parity and "five or more", shuffled."""
    data = load_digits()
    order = np.random.default_rng(seed).permutation(len(data.target))
    digit = data.target[order]
    return data.images[order].astype(np.uint8)[..., None], digit % 2, (digit >= 5).astype(int)


def problem(released: np.ndarray, y: np.ndarray, z: np.ndarray, **changes: object) -> Problem:
    """``released`` (n, 8, 8, 1) under attack: two thirds to train adversaries on, one third to test."""
    two_thirds = len(y) * 2 // 3
    seen = Released(released[:two_thirds], y[:two_thirds], z[:two_thirds])
    test = Released(released[two_thirds:], y[two_thirds:], z[two_thirds:])
    fit, stop, choose = cut(seen, 0)
    budget = replace(BUDGETS["quick"], epochs=20, trees=60)
    counted = metrics.counted_prior(seen.y, seen.z, THETA.shape)
    made = Problem(DIGITS, THETA, counted, fit, stop, choose, test, budget)
    return replace(made, **changes)


def at_chance(found: Findings) -> bool:
    """No better than the better chance, within the interval, and no bits learned."""
    return found.worst_adaptive.low <= max(found.chance) and found.most_bits.bits_counted_low <= 0.01


def test_identity_scores_as_raw_data_does():
    x, y, z = rows()
    two_thirds = len(y) * 2 // 3
    clean = Released(x[: two_thirds // 2], y[: two_thirds // 2], z[: two_thirds // 2])
    found = attack_all(problem(x, y, z, clean=clean))
    by_name = {row.name: row for row in found.rows}
    assert found.worst_adaptive.accuracy >= 0.95
    # A classifier of raw data, trained on raw data, is what the transfer adversary is: identity hides nothing of it.
    assert by_name["transfer"].low <= found.worst_adaptive.accuracy <= by_name["transfer"].high + 0.03
    assert by_name["transfer"].kind == "transfer"
    assert found.worst_adaptive.bits > 0.7
    assert [left.name for left in found.not_run] == ["fixed D_z", "random forest"]
    assert all(left.reason for left in found.not_run)


def test_a_bit_hidden_in_one_pixel_is_caught():
    """Pictures of noise that carry z in the lowest bit of one of 64 pixels, and nothing else of x."""
    _, y, z = rows()
    noise = np.random.default_rng(1).integers(0, 17, (len(y), 8, 8, 1)).astype(np.uint8)
    noise[:, 4, 4, 0] = (noise[:, 4, 4, 0] & 0xFE) | z
    found = attack_all(problem(noise, y, z))
    assert found.worst_adaptive.name == "lowest bits"
    assert found.worst_adaptive.accuracy == 1.0
    assert found.worst_adaptive.low > max(found.chance)


def test_a_bit_hidden_in_a_float_is_caught():
    _, y, z = rows()
    noise = np.random.default_rng(1).random((len(y), 8, 8, 1)).astype(np.float32)
    bits = noise.view(np.uint32)
    bits[:, 2, 5, 0] = (bits[:, 2, 5, 0] & ~np.uint32(1)) | (z ^ y).astype(np.uint32)
    floats = InputSpec("image", (8, 8, 1), "float32", 0.0, 1.0)
    found = attack_all(problem(noise, y, z, input=floats))
    assert found.worst_adaptive.accuracy > 0.99


def test_constants_are_at_chance():
    x, y, z = rows()
    found = attack_all(problem(np.full_like(x, 7), y, z))
    assert at_chance(found)
    adaptive = [row for row in found.rows if row.kind == "adaptive"]
    assert [row.accuracy for row in adaptive] == [pytest.approx(found.chance.majority)] * len(adaptive)


def test_shuffled_z_is_at_chance():
    x, y, z = rows()
    rng = np.random.default_rng(11)
    for value in (0, 1):
        members = np.flatnonzero(y == value)
        z[members] = z[rng.permutation(members)]
    assert at_chance(attack_all(problem(x, y, z)))


def test_label_only_is_at_its_known_level():
    """The mean picture of the predicted parity, wrong for 3 % of the rows whatever z is: chance is all there is."""
    x, y, z = rows()
    predicted = y ^ (np.random.default_rng(5).random(len(y)) < 0.03)
    means = np.stack([x[y == value].mean(axis=0).round().astype(np.uint8) for value in (0, 1)])
    assert at_chance(attack_all(problem(means[predicted], y, z)))


def test_an_output_beside_the_frame_is_attacked_too():
    x, y, z = rows()
    leaky = problem(np.full_like(x, 7), y, z)
    parts = {
        name: replace(getattr(leaky, name), also=np.eye(2, dtype=np.float32)[getattr(leaky, name).z])
        for name in ("fit", "stop", "choose", "test")
    }
    found = attack_all(replace(leaky, **parts))
    by_name = {row.name: row.accuracy for row in found.rows}
    assert {name for name, accuracy in by_name.items() if accuracy < 0.99} == set()


def test_the_same_seed_gives_the_same_numbers():
    x, y, z = rows()
    families = tuple(family for family in adversaries() if family.name in ("gradient boosting", "BatchNorm MLP"))
    once, again = (attack_all(problem(x, y, z), families=families) for _ in range(2))
    assert len(once.rows) == 2
    assert [replace(row, seconds=0) for row in once.rows] == [replace(row, seconds=0) for row in again.rows]
