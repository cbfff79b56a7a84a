"""The scripts on private training: what they measure, on made-up data and a few steps."""

import numpy as np
import pytest

from scripts.reproduce.dp import clipped_sums, private_codebook


def test_plain_and_clipped_steps_are_both_timed_and_the_formulas_used():
    found = clipped_sums.measured("vectors", "formula", 3)
    assert found["by_formula"]
    assert found["weights"] == 520 * 256 + 256 + 256 * 128 + 128 + 128 * 64 + 64 + 64 * 2 + 2
    assert min(value for kind in found["seconds"].values() for value in kind.values()) > 0
    assert 0 < found["peak_gb"]["before"] <= found["peak_gb"]["after"]


def test_a_code_that_tells_t_is_seen_and_one_that_tells_nothing_is_not():
    rng = np.random.default_rng(0)
    label, within = rng.integers(0, 2, 4_000), rng.integers(0, 4, 4_000)
    t = np.stack([within + 0.1 * rng.normal(size=4_000), 3.0 * label], axis=1)
    assert private_codebook.told(t, label, 4 * label + within) > 0.95
    assert abs(private_codebook.told(t, label, 4 * label + rng.permutation(within))) < 0.02


@pytest.mark.parametrize("budget", private_codebook.BUDGETS)
def test_the_recipe_is_one_that_private_takes(budget):
    made = private_codebook.recipe(budget)
    assert (made.private is None) == (budget == "none")
    assert made.perturber.codes == private_codebook.CODES
