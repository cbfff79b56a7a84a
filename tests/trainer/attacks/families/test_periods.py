"""Which two values, how often each turns the wave, and in what samples: the search for sums whose remainder is z."""

import numpy as np
import pytest

from edgeveil.trainer.attacks.families.periods import GRID, PeriodsOfSums, search
from edgeveil.trainer.attacks.features import Levels
from edgeveil.trainer.attacks.problem import BUDGETS, Problem, Released, cut, pose
from edgeveil.trainer.datasets.base import Dataset, InputSpec, Slices
from edgeveil.trainer.measures.attack_metrics import counted_prior


def posed(x: np.ndarray, z: np.ndarray) -> Problem:
    """The problem of vectors x of one y, half of them to test."""
    y, half, none = np.zeros(len(z), np.int64), len(z) // 2, np.empty(0, np.int64)
    names = tuple(map(str, range(int(z.max()) + 1)))
    theta = counted_prior(y, z, (1, len(names)))
    spec = InputSpec("vector", x.shape[1:], str(x.dtype), None, None)
    dataset = Dataset("vectors", x, y, z, ("0",), names, theta, spec, Slices(none, none, none))
    rows = Released(x, y, z)
    training = rows.take(slice(half))
    return pose(dataset, training, cut(training, 0), rows.take(slice(half, None)), BUDGETS["quick"])


def right(problem: Problem) -> float:
    """How often the family is right on the test rows."""
    p = PeriodsOfSums().fit(problem, 0).probabilities(problem.test)
    return float((p.argmax(axis=1) == problem.test.z).mean())


@pytest.mark.parametrize(
    ("dtype", "classes"), [(np.uint8, 2), (np.uint8, 3), (np.int16, 3), (np.float32, 2), (np.float64, 3)]
)
def test_the_remainder_of_a_difference_is_found_in_numbers_of_any_kind(dtype, classes):
    rng = np.random.default_rng(2)
    x = rng.integers(0, 200, (1600, 9))
    z = (x[:, 2] - x[:, 6]) % 5 % classes
    sent = (x / 255 if np.dtype(dtype).kind == "f" else x).astype(dtype)
    problem = posed(sent, z)
    assert right(problem) > 0.9
    assert right(posed(sent, rng.permutation(z))) < np.bincount(z).max() / len(z) + 0.05


def test_a_period_that_is_no_part_of_the_grid_is_found_at_its_two_values():
    rng = np.random.default_rng(3)
    x = rng.integers(0, 256, (1200, 12), dtype=np.uint8)
    turns = np.array([17.3, 41.8])
    z = (np.cos(2 * np.pi / GRID * (x[:, [3, 10]] @ turns)) > 0).astype(np.int64)
    problem = posed(x, z)
    found = search(problem, Levels(0.0, 1.0), np.array([[False, True]]), rng)
    assert sorted(found.places[0]) == [3, 10]
    assert sorted(found.turns[0]) == pytest.approx(turns, abs=0.15)


def test_values_that_do_not_vary_are_no_sums():
    x = np.full((400, 6), 7, np.uint8)
    x[:, 0] = np.arange(400) % 256
    z = np.arange(400) % 2
    assert len(search(posed(x, z), Levels(0.0, 1.0), np.array([[False, True]]), np.random.default_rng(0)).places) == 0
    assert right(posed(x, np.random.default_rng(1).permutation(z))) > 0.3
