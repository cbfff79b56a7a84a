"""The sensitivities of the functional mechanism, against every pair of rows."""

import itertools

import numpy as np
import pytest

from edgeveil.trainer.ext.private.estimators.functional import (
    LINEAR,
    LOGISTIC,
    most_moved,
    of_the_paper,
    split_of_the_paper,
)


def coefficients(x, label, weights):
    """(linear, quadratic matrix) of one row: labels of -1 and 1 stand for both kinds of regression."""
    return -label * weights.linear * x, weights.quadratic * np.outer(x, x)


def moved(one, other, sensitive, gamma):
    """F_n + gamma F_s: monomials off the diagonal count both entries of the matrix."""
    linear, matrix = (np.abs(a - b) for a, b in zip(one, other, strict=True))
    d, k = len(linear), sensitive
    plain = linear[: d - k].sum() + matrix[: d - k, : d - k].sum()
    return plain + gamma * (linear.sum() + matrix.sum() - plain)


def enumerated(weights, d, k=0, gamma=1.0, values=(-1.0, 1.0)):
    rows = [coefficients(np.array(x), label, weights) for x in itertools.product(values, repeat=d) for label in (-1, 1)]
    return max(moved(one, other, k, gamma) for one in rows for other in rows)


@pytest.mark.parametrize("d", [2, 3, 4, 5])
@pytest.mark.parametrize(
    ("weights", "exact"), [(LOGISTIC, lambda d: (d + 2) ** 2 / 8), (LINEAR, lambda d: (d + 1) ** 2)]
)
def test_no_pair_of_rows_moves_more_and_some_move_as_much(weights, exact, d):
    bound, found = most_moved(weights, d), enumerated(weights, d)
    assert bound == pytest.approx(exact(d))
    assert found <= bound + 1e-9
    if d % 2 == (0 if weights is LOGISTIC else 1):
        assert found == pytest.approx(bound)
    assert bound < of_the_paper(weights, d)


@pytest.mark.parametrize("weights", [LOGISTIC, LINEAR])
@pytest.mark.parametrize(("d", "k"), [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (3, 3)])
@pytest.mark.parametrize("gamma", [1.0, 0.5, 0.1, 0.01])
def test_split_budgets_hide_every_pair_of_rows(weights, d, k, gamma):
    bound = most_moved(weights, d - k, k, gamma)
    assert enumerated(weights, d, k, gamma) <= bound + 1e-9
    inside = np.random.default_rng(d).uniform(-1, 1, (400, d))
    rows = [coefficients(x, label, weights) for x, label in zip(inside, itertools.cycle((-1, 1)))]
    assert max(moved(a, b, k, gamma) for a, b in itertools.pairwise(rows)) <= bound + 1e-9


def test_the_bound_of_split_budgets_is_the_largest_of_a_fine_grid():
    for weights, d, k, gamma in itertools.product((LOGISTIC, LINEAR), (2, 5, 13), (1, 2), (1.0, 0.3, 0.02)):
        p_n, p_s = np.meshgrid(np.linspace(0, 2 * (d - k), 401), np.linspace(0, 2 * k, 401))
        q_n, q_s = 2 * (d - k) - p_n, 2 * k - p_s
        a, b = weights
        grid = a * p_n + b * p_n * q_n + gamma * (a * p_s + b * (p_n * q_s + p_s * q_n + p_s * q_s))
        bound = most_moved(weights, d - k, k, gamma)
        assert grid.max() <= bound + 1e-9
        assert grid.max() >= bound * (1 - 1e-3)


def test_rows_of_few_ones_move_less():
    """The change on rows of 0 and 1 with at most B ones is B + B^2 / 4."""
    for d, most in ((4, 2), (5, 3), (6, 2)):
        rows = [np.array(x) for x in itertools.product((0.0, 1.0), repeat=d) if sum(x) <= most]
        made = [coefficients(x, label, LOGISTIC) for x in rows for label in (-1, 1)]
        assert max(moved(a, b, 0, 1.0) for a in made for b in made) <= most + most**2 / 4 + 1e-9


def test_table_2_of_paper_004():
    """d = 13 and one sensitive attribute: (gamma, epsilon_s, epsilon_n) for epsilon 1."""
    for gamma, sensitive, ordinary in (
        (0.5, 0.520, 1.040), (0.25, 0.265, 1.061), (0.1, 0.107, 1.074), (0.05, 0.054, 1.079), (0.025, 0.027, 1.081),
        (0.01, 0.011, 1.082),
    ):  # fmt: skip
        found = split_of_the_paper(13, 1, gamma, 1.0)
        assert found == (pytest.approx(ordinary, abs=6e-4), pytest.approx(sensitive, abs=6e-4))
