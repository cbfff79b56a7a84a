"""What an audit and a card say of a promise: claimed, recomputed, enumerated, and under which conditions."""

import json
from fractions import Fraction

import jsonschema
import numpy as np
import pytest

from edgeveil.trainer.audit import card
from edgeveil.trainer.audit.sections import spending_section
from edgeveil.trainer.datasets import slicing
from edgeveil.trainer.datasets.base import Dataset, InputSpec
from edgeveil.trainer.perturbers import laplace, local, promise
from edgeveil.trainer.perturbers.local import Local
from edgeveil.trainer.recipe.training_sections import Spending
from tests.support.checkout import ROOT

SCHEMA = json.loads((ROOT / "docs/reference/schemas/audit.schema.json").read_text())["$defs"]["spending"]
SPEC = InputSpec("vector", (3,), "float32", (0.0,) * 3, (1.0,) * 3)


def section(fitted, *, from_training=False):
    found = spending_section.section(fitted.description(), dict(fitted.tables), from_training=from_training)
    jsonschema.validate(found, SCHEMA)
    return found


def text(found):
    return "\n".join(spending_section.Spending().lines(found, {}))


def test_a_claim_is_stated_with_its_conditions():
    asked = Local(kind="local", of="reading", mechanism="duchi-linf", epsilon=1.0)
    fitted = promise.promised(local.reading(asked, SPEC), Spending(unit="release", most=10.0))
    found = section(fitted)
    assert found["claimed"] == 1.0 >= found["recomputed"]
    assert found["enumerated"] == {"epsilon": pytest.approx(1.0), "draws": 8 * 2 * 8 * 2}
    assert found["sentence"] == (
        "One release of this bundle changes the odds of anything about its reading by a factor of at most e^1 "
        "(alpha-local differential privacy, alpha = 1, checked by the runtime in the shipped integers), for readings "
        "clipped to the public bounds, a generator of the operating system that is sound, and an attacker who does not "
        "see inside the board; releases add up, and the ledger stops them at 10."
    )
    told = card._guarantees([{"artefact": "numpy", "spending": found}], {})
    assert [one["sentence"] for one in told] == [found["sentence"]]
    assert "enumerated 1.000000000 over 256 draws" in text(found)


def test_laplace_noise_is_under_the_same_sentence_without_a_claim():
    found = section(laplace.perturber(SPEC, Fraction(10), 5), from_training=True)
    assert found["claimed"] is None
    assert found["recomputed"] == 3 * 5 / 10
    assert "alpha = 1.5, computed from the shipped integers; the bundle does not claim it" in found["sentence"]
    assert "extremes of training rows, and ship" in found["sentence"]
    assert "not_run" in found["enumerated"]


def test_a_channel_with_a_zero_promises_nothing():
    stages = [{"stage": "draw", "distribution": "channel", "input": "c", "table": "t", "output": "d"}]
    manifest = {"stages": stages, "outputs": [{"name": "code", "kind": "code", "tensor": "d"}]}
    assert spending_section.section(manifest, {"t": np.eye(2, dtype=np.uint32)}, from_training=False) is None


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
    ("name", "near"), [("duchi-linf", 0.4), ("duchi-l2", 0.25), ("laplace", 0.0), ("hybrid", 0.25)]
)
def test_every_mechanism_keeps_its_epsilon_and_the_bound_is_near_it(name, near):
    found = spending_section.at_least(mechanism(name, 1.0).perturb, dataset(), confidence=SURE)
    assert near <= found["epsilon"] <= 1.0


def test_a_coin_that_is_turned_too_far_is_found_and_said():
    found = spending_section.at_least(mechanism("duchi-linf", 2.0).perturb, dataset(), confidence=SURE)
    assert found["epsilon"] > 1.0
    told = {"claimed": 1.0, "recomputed": 1.0, "enumerated": {"not_run": "-"}, "sentence": "-", "measured": found}
    assert "more than the integers promise" in text(told)
    told["recomputed"] = 2.0
    assert "more than the integers promise" not in text(told)


def test_what_leaves_as_it_is_has_no_bound_but_the_runs():
    found = spending_section.at_least(lambda x: {"frame": x}, dataset(), confidence=SURE)
    assert found["epsilon"] > 5
    assert found["neighbours"].count(";") == 1


def test_what_says_nothing_spends_nothing():
    rng = np.random.default_rng(1)
    for code in (lambda x: rng.integers(0, 8, len(x)), lambda x: np.zeros(len(x))):
        found = spending_section.at_least(lambda x, code=code: {"code": code(x)}, dataset(), confidence=SURE)
        assert found["epsilon"] == 0
