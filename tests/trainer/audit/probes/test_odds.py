"""The audit's lower bound for epsilon: near what is spent, never above it, and above a claim that is too small."""

import numpy as np
import pytest

from edgeveil.trainer.audit.probes import odds
from edgeveil.trainer.audit.sections import spending_section
from edgeveil.trainer.datasets import slicing
from edgeveil.trainer.datasets.base import Dataset, InputSpec
from edgeveil.trainer.perturbers import local
from edgeveil.trainer.perturbers.local import Local

SPEC = InputSpec("vector", (3,), "float32", (-1.0,) * 3, (1.0,) * 3)
SURE = 1 - 1e-6  # the noise is the operating system's: one run in a million fails for nothing


def dataset(n=400):
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, n), rng.integers(0, 2, n)
    x = np.clip(rng.normal(size=(n, 3)) + y[:, None], -1, 1).astype(np.float32)
    slices = slicing.cut(y, z, cluster=None, rng=rng)
    return Dataset("made", x, y, z, ("a", "b"), ("c", "d"), np.full((2, 2), 0.5), SPEC, slices)


def mechanism(name, epsilon):
    return local.reading(Local(kind="local", of="reading", mechanism=name, epsilon=epsilon), SPEC)


# About half of what forty runs found: a run in which the score chose a poor direction lies far below the others (bounds
# of 1.63 to 1.83 at epsilon 2, and once 1.48). Of noise added to several values the score finds little: there only that
# the bound is none of more than was spent is asked.
@pytest.mark.parametrize(
    ("name", "near"), [("duchi-linf", 0.4), ("duchi-l2", 0.25), ("laplace", 0.0), ("hybrid", 0.25)]
)
def test_every_mechanism_keeps_its_epsilon_and_the_bound_is_near_it(name, near):
    found = odds.at_least(mechanism(name, 1.0).perturb, dataset(), confidence=SURE)
    assert near <= found["epsilon"] <= 1.0


def test_a_coin_that_is_turned_too_far_is_found_and_said():
    found = odds.at_least(mechanism("duchi-linf", 2.0).perturb, dataset(), confidence=SURE)
    assert found["epsilon"] > 1.0
    told = {"claimed": 1.0, "recomputed": 1.0, "enumerated": {"not_run": "-"}, "sentence": "-", "measured": found}
    assert "more than the integers promise" in spending_section.as_lines(told)[-1]
    told["recomputed"] = 2.0
    assert "more than the integers promise" not in spending_section.as_lines(told)[-1]


def test_what_leaves_as_it_is_has_no_bound_but_the_runs():
    found = odds.at_least(lambda x: {"frame": x}, dataset(), confidence=SURE)
    assert found["epsilon"] > 5
    assert found["neighbours"].count(";") == 1


def test_what_says_nothing_spends_nothing():
    rng = np.random.default_rng(1)
    assert odds.at_least(lambda x: {"code": rng.integers(0, 8, len(x))}, dataset(), confidence=SURE)["epsilon"] == 0
    assert odds.at_least(lambda x: {"code": np.zeros(len(x))}, dataset(), confidence=SURE)["epsilon"] == 0
