"""What reproduces: figures within both intervals, bounds within their slack, a verdict word for word."""

import copy
import json

import jsonschema
import pytest
import referencing

from edgeveil.trainer.audit.card import card
from edgeveil.trainer.audit.rerun import as_text, compare, missed
from tests.support import bundles
from tests.support.audit_documents import document
from tests.support.checkout import ROOT

SCHEMAS = {
    name: json.loads((ROOT / "docs/reference/schemas" / name).read_text())
    for name in ("audit.schema.json", "rerun.schema.json")
}
REGISTRY = referencing.Registry().with_resources(
    [(name, referencing.Resource.from_contents(schema)) for name, schema in SCHEMAS.items()]
)
CHECK = jsonschema.Draft202012Validator(SCHEMAS["rerun.schema.json"], registry=REGISTRY)
CERTIFIED = {
    "given": True,
    "sentence": "A bound.",
    "bound": 0.7,
    "plug_in": 0.65,
    "per_code": {"given": True, "sentence": "A factor.", "factor": 1.5, "estimate": 1.2},
}


def compared(recorded, again):
    part = card(recorded, bundles.artefact_example()[0])["artefacts"][0]
    found = compare(part, again, name="digits", manifest_sha256="0" * 64)
    CHECK.validate(json.loads(json.dumps(found, allow_nan=False)))
    return found


def test_an_audit_reproduces_itself():
    found = compared(document(), document())
    assert found["reproduces"]
    assert missed(found) == []
    assert "DOES NOT" not in as_text(found)
    assert "no interval" not in as_text(found)


@pytest.mark.parametrize(("by", "reproduces"), [(0.0282, True), (0.0284, False), (-0.0282, True), (-0.0284, False)])
def test_estimates_may_differ_by_the_root_of_both_squared_halves(by, reproduces):
    recorded, again = document(), document()  # every interval is 0.02 to both sides, so 0.02828 are allowed
    again["target"] = {name: value + by for name, value in again["target"].items()}
    found = compared(recorded, again)
    assert (missed(found) == []) is reproduces
    assert found["figures"][0]["allowed"] == pytest.approx(0.02 * 2**0.5, abs=1e-6)


def test_the_halves_that_face_each_other_count():
    recorded, again = document(), document()
    recorded["target"] = {"accuracy": 0.96, "low": 0.9, "high": 0.97}  # its lower half allows nothing above
    again["target"] = {"accuracy": 0.985, "low": 0.975, "high": 1.0}
    assert missed(compared(recorded, again)) == ["parity kept"]


@pytest.mark.parametrize("low", [0.0, None])
def test_a_recorded_interval_that_is_too_wide_or_left_out_excuses_nothing(low):
    recorded, again = document(), document()
    recorded["target"] = {"accuracy": 0.99, "low": low, "high": 1.0}
    again["target"] = {"accuracy": 0.9, "low": 0.88, "high": 0.92}
    found = compared(recorded, again)
    assert missed(found) == ["parity kept"]
    assert found["figures"][0]["allowed"] == pytest.approx((0.04**2 + 0.02**2) ** 0.5, abs=1e-6)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda d: d["worst_adaptive"].update(accuracy=0.7, low=0.68, high=0.72), "less-than-five, best attack"),
        (lambda d: d["most_bits"].update(bits=0.5, bits_low=0.49, bits_high=0.51), "less-than-five, most bits"),
        (
            lambda d: d["label_only"]["worst_adaptive"].update(accuracy=0.9, low=0.88, high=0.92),
            "label-only: less-than-five, best attack",
        ),
        (
            lambda d: d["certificate"]["per_code"].update(factor=1.05, estimate=1.01),
            "factor of the worst code, at most",
        ),
        (lambda d: d["certificate"]["per_code"].update(given=False), "factor of the worst code, at most"),
        (lambda d: d["certificate"].update(bound=0.55, plug_in=0.54), "less-than-five, right at most"),
        (lambda d: d["verdict"].update(word="holds"), "verdict"),
    ],
)
def test_what_was_recorded_otherwise_is_named(change, name):
    again = {**document(), "certificate": CERTIFIED}
    recorded = copy.deepcopy(again)
    change(recorded)
    found = compared(recorded, again)
    assert missed(found) == [name]
    assert as_text(found).count("DOES NOT REPRODUCE") == 1


def test_without_an_interval_nothing_is_compared():
    recorded, again = document(), document()
    for one in (recorded, again):
        one["most_bits"].update(bits_low=None, bits_high=None)
    found = compared(recorded, again)
    assert found["reproduces"]
    assert "cannot be compared" in as_text(found)


def test_a_verdict_in_words_of_before_is_not_compared():
    part = card(document(), bundles.artefact_example()[0])["artefacts"][0] | {"verdict": "hidden in part"}
    found = compare(part, document(), name="digits", manifest_sha256="0" * 64)
    assert found["verdict"]["reproduces"] is None
    assert found["reproduces"]
