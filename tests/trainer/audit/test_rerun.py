"""What reproduces: figures within both intervals, bounds within their slack, a verdict by its word."""

import copy
import json

import jsonschema
import pytest
import referencing

from edgeveil.trainer.audit.card import card
from edgeveil.trainer.audit.findings import Finding
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
Z = "less-than-five"
CERTIFIED = [
    Finding(Z, "counted channel", "right", 0.7, (0.65, 0.7), bound=True, text="A bound."),
    Finding("channel", "worst code", "factor", 1.5, (1.2, 1.5), bound=True, text="A factor."),
]


def change(made, name, figure, value, interval, *, of=None):
    """The findings of one attack, reader or law with another value."""
    for one in made["findings"]:
        if (one["name"], one.get("figure"), one.get("of")) == (name, figure, of):
            one.update(value=value, interval=interval)


def keeps(made, value, interval):
    change(made, "D_y", "right", value, interval)


def certified():
    made = document()
    made["findings"] += [one.as_json() for one in CERTIFIED]
    return made


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
    keeps(again, 0.96 + by, [0.94 + by, 0.98 + by])
    found = compared(recorded, again)
    assert (missed(found) == []) is reproduces
    assert found["figures"][0]["allowed"] == pytest.approx(0.02 * 2**0.5, abs=1e-6)


def test_the_halves_that_face_each_other_count():
    recorded, again = document(), document()
    keeps(recorded, 0.96, [0.9, 0.97])  # its lower half allows nothing above
    keeps(again, 0.985, [0.975, 1.0])
    assert missed(compared(recorded, again)) == ["parity kept"]


@pytest.mark.parametrize("low", [0.0, None])
def test_a_recorded_interval_that_is_too_wide_or_left_out_excuses_nothing(low):
    recorded, again = document(), document()
    keeps(recorded, 0.99, [low, 1.0])
    keeps(again, 0.9, [0.88, 0.92])
    found = compared(recorded, again)
    assert missed(found) == ["parity kept"]
    assert found["figures"][0]["allowed"] == pytest.approx((0.04**2 + 0.02**2) ** 0.5, abs=1e-6)


@pytest.mark.parametrize(
    ("harm", "name"),
    [
        (lambda d: change(d, "BatchNorm MLP", "right", 0.7, [0.68, 0.72]), f"{Z}, best attack"),
        (lambda d: change(d, "logistic regression", "bits-counted", 0.5, [0.49, 0.51]), f"{Z}, most bits"),
        (
            lambda d: change(d, "BatchNorm MLP", "right", 0.9, [0.88, 0.92], of="label-only"),
            f"label-only: {Z}, best attack",
        ),
        (lambda d: change(d, "worst code", "factor", 1.05, [1.01, 1.05]), "factor of the worst code, at most"),
        (lambda d: d["findings"].pop(), "factor of the worst code, at most"),
        (lambda d: change(d, "counted channel", "right", 0.55, [0.54, 0.55]), f"{Z}, right at most"),
        (lambda d: d["verdict"].update(word="nothing found"), "verdict"),
    ],
)
def test_what_was_recorded_otherwise_is_named(harm, name):
    again = certified()
    recorded = copy.deepcopy(again)
    harm(recorded)
    found = compared(recorded, again)
    assert missed(found) == [name]
    assert as_text(found).count("DOES NOT REPRODUCE") == 1


def test_without_an_interval_nothing_is_compared():
    recorded, again = document(), document()
    for one in (recorded, again):
        change(one, "logistic regression", "bits-counted", 0.0, [None, None])
    found = compared(recorded, again)
    assert found["reproduces"]
    assert "cannot be compared" in as_text(found)


def test_an_audit_without_a_verdict_has_none_to_compare():
    part = {**card(document(), bundles.artefact_example()[0])["artefacts"][0], "verdict": None}
    found = compare(part, document(), name="digits", manifest_sha256="0" * 64)
    assert found["verdict"]["reproduces"] is None
    assert found["reproduces"]
