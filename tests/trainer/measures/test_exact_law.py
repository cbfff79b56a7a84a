"""Exact laws: what the shipped integers promise is what running them gives, and a broken mechanism is found."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from edgeveil.edge_runtime.stages import duchi_linf
from edgeveil.edge_runtime.stages.hybrid import Hybrid
from edgeveil.edge_runtime.stages.mechanism import REPORT, likely, odds
from edgeveil.trainer.measures import exact_law
from edgeveil.trainer.perturbers import local

OUT = [{"tensor": REPORT}]
ALPHAS = (0.1, 1.0, 5.0)


def ratio(made):
    return exact_law.largest_ratio(made.stages, OUT, dict(made.tables or {}))


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_the_cube_costs_alpha_and_no_more_even_sizes_too(d, alpha):
    found = ratio(local.of_vector("duchi-linf", "u", d, alpha))
    assert alpha - 1e-8 <= found.epsilon <= alpha + 1e-9
    assert found.draws == 2**d * 2 * 2 ** (d + 1 - d % 2) * 2  # corners, rounding words, fair bits, the coin


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("name", ["k-rr", "oue", "hrr"])
@pytest.mark.parametrize("k", [2, 5, 8])
def test_categories_cost_alpha_and_no_more(name, k, alpha):
    found = ratio(local.of_category(name, "u", k, alpha))
    assert alpha - 1e-6 <= found.epsilon <= alpha + 1e-9


@pytest.mark.parametrize(("d", "positions"), [(1, 24), (2, 6)])
@pytest.mark.parametrize("alpha", [0.1, 1.0, 5.0])
def test_hybrid_on_a_small_grid_costs_no_more_than_alpha(d, positions, alpha):
    found = ratio(Hybrid().design("u", d, alpha, positions=positions))
    assert 0 < found.epsilon <= alpha + 1e-9


def test_the_published_form_for_even_sizes_is_found_out():
    """duchi-linf as it is printed, d = 2: {z: <z, v> >= 0} and {z: <z, v> <= 0} have corners in common, 3 of 4 each."""
    keep = Fraction(likely(odds(1.0)), 2**62)
    corners = list(itertools.product((-1, 1), repeat=2))
    laws = [
        {repr(z).encode(): (keep * (z @ v >= 0) + (1 - keep) * (z @ v <= 0)) / 3 for z in map(np.array, corners)}
        for v in map(np.array, corners)
    ]
    assert exact_law.log_ratio(laws) == pytest.approx(math.log(math.e + 1))


def test_a_stage_that_sends_too_much_is_found_out(monkeypatch):
    """v or -v, by the coin alone: most reports never come of a given corner."""

    def bare(u, _rounding, _fair, coin):
        return np.where((u > 0.5) == coin[:, None], 1, -1).astype(np.int8)

    monkeypatch.setattr(duchi_linf.DuchiCube, "answer", staticmethod(bare))
    assert ratio(local.of_vector("duchi-linf", "u", 2, 1.0)).epsilon == math.inf


def test_what_never_comes_of_another_input_is_infinite():
    laws = [{b"a": Fraction(1)}, {b"a": Fraction(1, 2), b"b": Fraction(1, 2)}]
    assert exact_law.log_ratio(laws) == math.inf


def test_too_many_draws_are_said():
    assert "2,097,152" in ratio(local.of_vector("duchi-linf", "u", 11, 1.0)).not_run
    assert "duchi-l2" in ratio(local.of_vector("duchi-l2", "u", 2, 1.0)).not_run
