"""What an audit and a card say of a promise: claimed, recomputed, enumerated, and under which conditions."""

from fractions import Fraction

import numpy as np
import pytest

from edgeveil.trainer import train
from edgeveil.trainer.audit.card import guarantees
from edgeveil.trainer.audit.sections import spending_section
from edgeveil.trainer.datasets import slicing
from edgeveil.trainer.datasets.base import Dataset, InputSpec
from edgeveil.trainer.perturbers import laplace, local
from edgeveil.trainer.perturbers.local import Local
from edgeveil.trainer.recipe.training_sections import Spending
from tests.support.once import nightly_but
from tests.support.promised.counting_bundle import COUNT

SPEC = InputSpec("vector", (3,), "float32", (0.0,) * 3, (1.0,) * 3)


def section(fitted, *, from_training=False):
    manifest, tables = fitted.description(), dict(fitted.tables)
    return spending_section.section(manifest, tables, of="z", from_training=from_training)


def test_a_claim_is_stated_with_its_conditions():
    asked = Local(kind="local", of="reading", mechanism="duchi-linf", epsilon=1.0)
    fitted = train.promised(local.reading(asked, SPEC), Spending(unit="release", most=10.0))
    claim, recomputed, enumerated = section(fitted)
    assert claim.value == 1.0 >= recomputed.value
    assert (enumerated.value, enumerated.rows) == (pytest.approx(1.0), 8 * 2 * 8 * 2)
    assert (claim.question, claim.figure, claim.bound, claim.more["claimed"]) == ("z", "epsilon", True, True)
    assert claim.text == (
        "One release of this bundle changes the odds of anything about its reading by a factor of at most e^1 "
        "(alpha-local differential privacy, alpha = 1, checked by the runtime in the shipped integers), for readings "
        "clipped to the public bounds, a generator of the operating system that is sound, and an attacker who does not "
        "see inside the board; releases add up, and the ledger stops them at 10."
    )
    counting = {**fitted.description(), "count": COUNT}
    (claim_with_counts, *_) = spending_section.section(counting, dict(fitted.tables), of="z", from_training=False)
    assert claim_with_counts.text == claim.text[:-1] + "; its counts are beyond that."
    document = {"findings": [one.as_json() for one in (claim, recomputed, enumerated)]}
    assert [one.text for one in guarantees(document)] == [claim.text]


def test_laplace_noise_is_under_the_same_sentence_without_a_claim():
    promised, recomputed, enumerated = section(laplace.perturber(SPEC, Fraction(10), 5), from_training=True)
    assert not promised.more["claimed"]
    assert promised.value == recomputed.value == 3 * 5 / 10
    assert "alpha = 1.5, computed from the shipped integers; the bundle does not claim it" in promised.text
    assert "extremes of training rows, and ship" in promised.text
    assert promised.more["bounds"] == "from-training"
    assert enumerated.not_run


def test_a_channel_with_a_zero_promises_nothing():
    stages = [{"stage": "draw", "distribution": "channel", "input": "c", "table": "t", "output": "d"}]
    manifest = {"stages": stages, "outputs": [{"name": "code", "kind": "code", "tensor": "d"}]}
    assert spending_section.section(manifest, {"t": np.eye(2, dtype=np.uint32)}, of="z", from_training=False) == []


# The bound from below: near what is spent, never above it, and above a claim that is too small.

AROUND = InputSpec("vector", (3,), "float32", (-1.0,) * 3, (1.0,) * 3)
SURE = 1 - 1e-6  # the noise is the operating system's: one run in a million fails for nothing


def dataset(n=400):
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, n), rng.integers(0, 2, n)
    x = np.clip(rng.normal(size=(n, 3)) + y[:, None], -1, 1).astype(np.float32)
    slices = slicing.cut(y, z, cluster=None, rng=rng)
    return Dataset("made", x, y, z, ("a", "b"), ("c", "d"), np.full((2, 2), 0.5), AROUND, slices)


def mechanism(name, epsilon):
    return local.reading(Local(kind="local", of="reading", mechanism=name, epsilon=epsilon), AROUND)


# About half of what forty runs found: a run in which the score chose a poor direction lies far below the others (bounds
# of 1.63 to 1.83 at epsilon 2, and once 1.48). Of noise added to several values the score finds little: there only that
# the bound is none of more than was spent is asked.
@pytest.mark.parametrize(
    ("name", "near"),
    nightly_but(
        (("duchi-linf", 0.4), ("duchi-l2", 0.25), ("laplace", 0.0), ("hybrid", 0.25)),
        ("duchi-linf", 0.4),
        ("hybrid", 0.25),
    ),
)
def test_every_mechanism_keeps_its_epsilon_and_the_bound_is_near_it(name, near):
    found = spending_section.at_least(mechanism(name, 1.0).perturb, dataset(), 1.0, confidence=SURE)
    assert near <= found.value <= 1.0
    assert found.more["holds"]


@pytest.mark.parametrize(("promised", "holds"), [(1.0, False), (2.0, True)])
def test_a_coin_that_is_turned_too_far_is_found_and_said(promised, holds):
    found = spending_section.at_least(mechanism("duchi-linf", 2.0).perturb, dataset(), promised, confidence=SURE)
    assert found.value > 1.0
    assert found.more["holds"] is holds
    assert ("more than the integers promise" in found.text) is not holds


def test_what_leaves_as_it_is_has_no_bound_but_the_runs():
    found = spending_section.at_least(lambda x: {"frame": x}, dataset(), 1.0, confidence=SURE)
    assert found.value > 5
    assert found.text.count(";") == 1


def test_what_says_nothing_spends_nothing():
    rng = np.random.default_rng(1)
    for code in (lambda x: rng.integers(0, 8, len(x)), lambda x: np.zeros(len(x))):
        found = spending_section.at_least(lambda x, code=code: {"code": code(x)}, dataset(), 1.0, confidence=SURE)
        assert found.value == 0
