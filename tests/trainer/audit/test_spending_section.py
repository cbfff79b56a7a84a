"""What an audit and a card say of a promise: claimed, recomputed, enumerated, and under which conditions."""

import json
from fractions import Fraction

import jsonschema
import numpy as np
import pytest

from edgeveil.trainer.audit import card
from edgeveil.trainer.audit.sections import spending_section
from edgeveil.trainer.datasets.base import InputSpec
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
    assert "enumerated 1.000000000 over 256 draws" in spending_section.as_lines(found)[1]


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
