"""The parts of an audit beside its attacks: what can be counted, what is still of use, and what was asked."""

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit import card as limits
from edgeveil.trainer.audit.card import as_text, card
from edgeveil.trainer.audit.sections import certificate_section, pufferfish, retained
from edgeveil.trainer.audit.sections import retained as utility
from edgeveil.trainer.audit.subject import RELEASED, SENT, Bottleneck, bottleneck
from edgeveil.trainer.datasets.base import Dataset, InputSpec, Known, Slices
from edgeveil.trainer.perturbers.codebook import stream_codes
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.recipe.training_sections import Limits
from tests.support.audit_documents import document
from tests.support.checkout import ROOT

SCHEMA = json.loads((ROOT / "docs/reference/schemas" / "audit.schema.json").read_text())

HEAD = [
    {"stage": "preprocess", "input": "x", "output": "u"},
    {"stage": "artefact", "model": "e", "inputs": {"i": "u"}, "outputs": {"l": "logits", "c": "codes"}},
    {"stage": "table", "op": "argmax", "input": "logits", "output": "label"},
]
WITHIN = {"stage": "table", "op": "argmax_within", "input": "codes", "group": "label", "groups": 2, "output": "code"}
LABEL = {"name": "label", "kind": "label", "tensor": "label"}


def picture(of: str) -> list[dict]:
    row = {"stage": "synthesis", "op": "row", "input": of, "table": "pictures", "output": "v"}
    return [row, {"stage": "output", "input": "v", "output": "x_out"}]


def frame_of(tensor: str = "x_out") -> dict:
    return {"name": "frame", "kind": "frame", "tensor": tensor}


def draw(of: str, table: str, to: str) -> dict:
    return {"stage": "draw", "distribution": "channel", "input": of, "table": table, "output": to}


TABLES = {
    "pictures": np.zeros((6, 1)),
    "means": np.zeros((2, 1)),
    "channel": np.kron(np.eye(2), np.full((3, 3), 4)).astype(np.uint32),
    "donors": stream_codes.donors_within(6, 2),
}


def found(stages: list[dict], outputs: list[dict]) -> Bottleneck | str:
    return bottleneck({"stages": [*HEAD, *stages], "outputs": outputs}, TABLES)


def test_what_a_code_and_noise_decide_can_be_counted():
    code = {"name": "code", "kind": "code", "tensor": "code"}
    assert found([WITHIN, *picture("code")], [frame_of(), LABEL, code]) == Bottleneck(
        "code", "code", None, 6, False, True
    )
    behind = found([WITHIN, draw("code", "channel", "c2"), *picture("c2")], [frame_of(), LABEL])
    assert behind == Bottleneck("code", "c2", "channel", 6, False, True)
    donors = found([WITHIN, draw("code", "donors", "d"), *picture("d")], [frame_of(), LABEL, code])
    assert donors == Bottleneck("code", "code", None, 6, False, True)  # the code itself leaves beside its donor
    assert found(picture("label"), [frame_of(), LABEL]) == Bottleneck("label", "label", None, None, False, True)
    hidden = found([draw("label", "channel", "other"), *picture("other")], [frame_of()])
    assert hidden == Bottleneck("label", "other", "channel", None, True, True)


def test_a_held_stream_is_seen_through():
    stages = [
        {"stage": "hold", "op": "majority", "input": "label", "groups": 2, "output": "held"},
        draw("held", "channel", "drawn"),
        {"stage": "hold", "op": "keep", "input": "drawn", "by": "held", "output": "kept"},
        *picture("kept"),
    ]
    both = found(stages, [frame_of(), {**LABEL, "tensor": "held"}])
    assert isinstance(both, Bottleneck)
    assert (both.sent, both.table, both.hidden_label) == ("label", None, False)


def test_more_than_a_code_is_said_to_be_more():
    whole = [{"stage": "output", "input": "codes", "output": "x_out"}]
    assert "more of a reading leaves than a code" in found(whole, [frame_of()])
    beside = found([WITHIN, *whole, *picture("code")[:1]], [frame_of(), LABEL])
    assert "more of a reading" in beside
    mixing = {**TABLES, "channel": np.ones((6, 6), np.uint32)}
    stages = [*HEAD, WITHIN, draw("code", "channel", "c2"), *picture("c2")]
    assert "leaves the class" in bottleneck({"stages": stages, "outputs": [frame_of(), LABEL]}, mixing)


def dataset(n: int = 3000, kind: str = "subject") -> Dataset:
    """Vectors of y, of z and of a size that nobody named; ten readings of each subject."""
    rng = np.random.default_rng(0)
    y, z, size = rng.integers(0, 2, n), rng.integers(0, 2, n), rng.normal(size=n)
    x = np.stack([4 * y, 4 * z, size], axis=1).astype(np.float32) + 0.1 * rng.normal(size=(n, 3)).astype(np.float32)
    spec = InputSpec("vector", (3,), "float32", (-1.0, -1.0, -4.0), (5.0, 5.0, 4.0))
    cluster = np.arange(n) // 10 if kind == "subject" else None
    slices = Slices(*np.split(np.arange(n), 3))
    names = ("a", "b"), ("c", "d")
    return Dataset(
        "made",
        x,
        y,
        z,
        *names,
        np.full((2, 2), 0.5),
        spec,
        slices,
        cluster,
        "subject" if kind else None,
        {"size": size},
    )


def section(data: Dataset, leak: float, **changes: object) -> dict:
    """The certificate where c is z with probability ``leak`` and else noise, two codes a class."""
    rng = np.random.default_rng(1)
    noise = rng.integers(0, 2, len(data.y))
    code = 2 * data.y + np.where(rng.random(len(data.y)) < leak, data.z, noise)
    asked = {"table": None, "tried": 1, "confidence": 0.95, "strata": None, "seed": 0, **changes}
    return certificate_section.section(
        data, Bottleneck("c", "c", None, 4, False), {SENT: code, RELEASED: code}, **asked
    )


def test_a_certificate_states_its_assumptions_and_counts_subjects():
    data = dataset(30_000)
    clean = section(data, 0.0)
    assert clean["given"]
    assert (clean["units"], clean["unit"]) == (1000, "subjects")
    assert clean["sentence"].startswith(
        "For one release, an adversary who knows y and nothing else that depends on x is right on average at most"
    )
    assert "with 95 % confidence, for subjects drawn like the calibration data" in clean["sentence"]
    assert "never saw" in clean["people"]
    assert clean["releases"]["scope"].startswith("single release only")
    leaky = section(data, 0.5)
    assert leaky["plug_in"] == pytest.approx(0.75, abs=0.02)
    assert leaky["plug_in"] > clean["bound"] - 0.1
    assert leaky["bits"] > 5 * leaky["null_bits_high"]
    assert leaky["releases"]["different_x"][2]["accuracy"] > leaky["releases"]["different_x"][0]["accuracy"] + 0.1
    assert section(data, 0.0, tried=50)["bound"] > clean["bound"]
    assert clean["over_null"]["low"] < 0 < clean["over_null"]["high"]
    assert leaky["over_null"]["low"] < 1 - 0.8113 < leaky["over_null"]["high"]  # right in 3 of 4: 1 - h(1/4) bits
    assert clean["per_code"]["factor"] < 1.8 < leaky["per_code"]["factor"]
    assert [one["releases"] for one in clean["per_code"]["linked"]] == [1, 4, 16, 64, 256]
    assert clean["per_code"]["of_class"]["given"]
    assert clean["per_code"]["of_class"]["factor"] < 1.8 < leaky["per_code"]["of_class"]["factor"]
    unseen = np.concatenate([data.slices.attack, data.slices.test])
    assert clean["per_code"]["units"] == len(np.unique(data.cluster[unseen]))
    assert ("of attack and test," if len(data.slices.attack) else "of test,") in clean["per_code"]["sentence"]
    for one in (clean, leaky):
        jsonschema.Draft202012Validator(SCHEMA).validate({**document(), "certificate": one})


def test_a_code_that_is_merged_is_none_that_lacks_a_bound():
    data = dataset(30_000)
    code = 2 * data.y + np.random.default_rng(1).integers(0, 2, len(data.y))
    released = np.where(code == 1, 0, code)
    table = stream_codes.integers(np.eye(4)[[0, 0, 2, 3]])
    asked = {"tried": 1, "confidence": 0.95, "strata": None, "seed": 0}
    outputs = {SENT: code, RELEASED: released}
    found = certificate_section.section(data, Bottleneck("c", "c2", "t", 4, False), outputs, table=table, **asked)
    assert found["per_code"]["of_class"]["given"]
    assert (found["per_code"]["of_class"]["codes"], found["per_code"]["of_class"]["unseen"]) == (3, 0)
    mixed = certificate_section.section(data, Bottleneck("c", "c2", "t", 4, True), outputs, table=table, **asked)
    assert mixed["per_code"]["of_class"] is None


def test_what_is_counted_is_shown_over_halves_of_the_people():
    data = dataset(30_000)
    clean, leaky = section(data, 0.0)["people_splits"], section(data, 0.5)["people_splits"]
    assert (clean["people"], clean["halvings"]) == (1000, 8)
    # Counting noise helps whoever counts and guesses on the same people, never who learned on others.
    assert clean["learned_on_others"]["mean"] == pytest.approx(0.5, abs=0.01)
    assert clean["plug_in"]["low"] > 0.5
    assert leaky["learned_on_others"]["low"] > 0.72
    assert "8 halvings of the people" in section(data, 0.0)["people"]
    assert section(dataset(3000, kind=""), 0.0)["people_splits"] is None


def test_one_person_who_differs_shows_in_the_spread():
    rng = np.random.default_rng(0)
    person = np.arange(400) // 100
    y, z = np.zeros(400, int), person % 2
    code = np.where(person == 0, 0, 1)  # only the first of four people has a code of its own
    found = certificate_section.people_certificate(y, code, z, person, q=np.eye(2), classes=(1, 2), rng=rng)
    assert found["learned_on_others"]["low"] < 0.3 < found["learned_on_others"]["high"]
    assert certificate_section.people_certificate(y, code, z, person % 3, q=np.eye(2), classes=(1, 2), rng=rng) is None


def test_too_few_subjects_are_said_with_the_number_that_is_needed():
    few = section(dataset(900), 0.0)
    assert not few["given"]
    assert "Too few subjects for a certificate: 30 were counted, and at least 150 are needed" in few["sentence"]


def test_a_channel_is_bounded_for_any_population():
    data = dataset(30_000)
    flat = np.kron(np.eye(2), np.full((2, 2), 2)).astype(np.uint32)
    found = section(data, 0.5, table=flat)
    assert found["capacity"] == pytest.approx(1)
    assert found["total_variation"] == 0
    assert "does not raise the chance" in found["population_free"]
    noisy = section(data, 0.5, table=np.kron(np.eye(2), np.array([[3, 1], [1, 3]])).astype(np.uint32))
    assert noisy["total_variation"] == pytest.approx(0.5)
    again = [one["accuracy"] for one in noisy["releases"]["same_x"]]
    assert again[2] > again[0] + 0.05  # the same reading, drawn again and again


def test_strata_must_be_attributes():
    with pytest.raises(BadInput, match="there are: size"):
        certificate_section.strata_of(dataset(60), ["light"])


@pytest.fixture(scope="module")
def useful() -> dict:
    """Collateral utility where x' keeps y and size and carries nothing of z."""
    data = dataset(2400)
    frames = data.x.copy()
    frames[:, 1] = 0
    utility.EFFORT["test"] = utility.Effort(rows=1600, epochs=12)
    found = retained.section(data, frames, "test", 0, named=("size",))
    means = np.stack([data.x[data.y == label].mean(axis=0) for label in (0, 1)])[data.y].astype(np.float32)
    return {**found, "beside": retained.label_only(data, means, data.y, "test", 0)}


def test_what_is_kept_of_a_third_attribute_is_found_and_label_only_keeps_none(useful):
    read = useful["perturbed"]["read_from_it"]["attributes"]["size"]
    floor = useful["beside"]["label_only_mean"]["read_from_it"]["attributes"]["size"]
    assert read["low"] > 0.9
    assert abs(floor["correlation"]) < 0.2
    assert useful["attributes"]["size"] == {"classes": 0, "named_by_recipe": True}
    assert useful["perturbed"]["train_on_it"]["y"]["accuracy"] > 0.9
    assert useful["beside"]["raw"]["train_on_it"]["attributes"]["size"]["correlation"] > 0.9


def test_a_discriminator_tells_means_and_not_donors(useful):
    assert useful["beside"]["label_only_mean"]["told_apart"]["accuracy"] > 0.9
    # Not one half: a donor that was shown to the discriminator as made is shown again.
    assert useful["beside"]["label_only_donor"]["told_apart"]["accuracy"] < 0.65


def test_a_correlations_interval_covers_and_widens_with_clusters():
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        a = rng.normal(size=80)
        b = 0.6 * a + 0.8 * rng.normal(size=80)
        found = utility.correlation(a, b, np.zeros(80, int), None)
        hits += found["low"] < 0.6 < found["high"]
    assert 180 <= hits <= 200
    a = np.repeat(rng.normal(size=40), 20)
    b = np.repeat(rng.normal(size=40), 20)
    y = np.zeros(800, int)
    alone, together = utility.correlation(a, b, y, None), utility.correlation(a, b, y, np.arange(800) // 20)
    assert together["high"] - together["low"] > 3 * (alone["high"] - alone["low"])


def test_the_diagnostic_is_that_of_one_model_and_never_a_guarantee():
    data = dataset(300)

    def sure(u: np.ndarray, *, training: bool) -> np.ndarray:
        return 9 * np.stack([-u[:, 1], u[:, 1]], axis=1)

    frames = data.x[data.slices.test].copy()
    frames[:, 1] = -1  # 0 in the unit cube: this classifier says one half
    found = pufferfish.section(data, frames, sure)
    assert found["gamma"]["perturbed"] == {"mean": 0, "sup": 0}
    assert found["gamma"]["raw"]["sup"] > 0.4
    assert found["title"] == "model-relative diagnostic: shift of classifier D"
    assert "no guarantee" in found["meaning"]


MANIFEST = {
    "name": "digits",
    "perturber": {
        "kind": "codebook",
        "substituted": True,
        "identity_allowed": False,
        "target": "parity",
        "sensitive": "less-than-five",
        "target_classes": ["even", "odd"],
    },
    "stream": {"hold": "frame", "votes": None, "period_s": None, "acknowledged": "Nobody walks here."},
}


def test_only_certificates_are_guarantees_and_the_card_repeats_what_was_acknowledged():
    audit = document()
    assert card(audit, MANIFEST)["guarantees"] == []
    audit["certificate"] = section(dataset(30_000), 0.0)
    made = card(audit, MANIFEST)
    said = [one["sentence"] for one in made["guarantees"]]
    assert said == [
        audit["certificate"]["per_code"]["sentence"],
        audit["certificate"]["sentence"],
        audit["certificate"]["population_free"],
    ]
    assert said[0].startswith("No code raises the chance of any value of z, given y, by more than a factor F = 1.")
    assert not any("classifier D" in text for text in said)
    assert any("Nobody walks here." in line for line in made["warnings"])
    assert any("records of other people" in line for line in made["warnings"])
    leaks = made["artefacts"][0]["leakage_about_others"]
    assert leaks[0]["attribute"] == "ink"
    assert leaks[0]["label_only"]["correlation"] == 0.02


def test_limits_are_met_by_upper_ends():
    asked = Limits(target_accuracy=0.5, attack_points=10.0, bits=0.5)
    held = limits.check(asked, document(best=0.69)["verdict"])
    assert [row["limit"] for row in held["exceeded"]] == ["attack_points"]
    assert held["found"] == {"attack_points": 12.0, "bits": 0.01}  # the CNN's 70 + 2 less 60; 61 + 2 - 50 balanced
    assert limits.sentences(held) == [
        "Attacks may reach 12.0 points over chance (upper end of 95 %): the recipe allows 10 (limits.attack_points), "
        "exceeded by 2.0."
    ]
    assert limits.check(asked, document(best=0.65, bits=0.7)["verdict"])["exceeded"][0]["limit"] == "bits"
    assert limits.check(Limits(target_accuracy=0.5), document()["verdict"])["exceeded"] == []
    unknown = {"upper": {"points": None, "bits": 0.1}}
    assert "no upper end to compare" in limits.sentences(limits.check(asked, unknown))[0]


def test_limits_of_an_audit_of_before_are_said_as_it_compared_them():
    row = {"limit": "attack_points", "asked": 10.0, "found": 15.0, "by": 5.0}
    assert "is 15.0 points over chance: the recipe allows 10" in limits.sentences({"exceeded": [row]})[0]


def test_a_certificate_from_a_perturber_that_has_none_is_refused_at_the_recipe():
    table = Recipe.find("mnist-prgan").model_dump(exclude_none=True)
    with pytest.raises(BadInput, match=r'no `\[certificate\]` for perturber.kind = "prgan"'):
        Recipe.check({**table, "certificate": {"tried": 3}})
    assert Recipe.find("mnist-codebook").certificate.tried > 1


@pytest.mark.parametrize(
    ("op", "capture", "held", "warned"),
    [
        ("argmax_within", {}, None, True),
        ("argmax_within", {}, {"hold": "period"}, False),  # what is held adds up no further
        ("argmax_within", None, None, False),  # samples that do not belong together
        ("argmax", {}, None, False),  # the class alone
    ],
)
def test_codes_that_nothing_holds_are_warned_of_where_the_bundle_is_for_a_camera(op, capture, held, warned):
    audit = document()
    audit["streams"] = {"hold": "none", "tracks": [], "headline": "Over 256 readings of one track it is found."}
    manifest = {**MANIFEST, "stages": [{"stage": "table", "op": op}], "capture": capture, "stream": held}
    said = [line for line in card(audit, manifest)["warnings"] if "nothing holds it" in line]
    assert bool(said) == warned
    assert all(line.endswith("Over 256 readings of one track it is found.") for line in said)


def test_one_value_of_y_kept_is_on_a_page_with_its_reader():
    from edgeveil.trainer.report.card_page import as_lines, render

    audit = document()
    audit["target"] = {"accuracy": 0.873, "low": 0.85, "high": 0.89, "by": "the label that is sent"}
    audit["fixed_reader"] = {"accuracy": 0.126, "low": 0.11, "high": 0.14}
    audit["collateral"]["perturbed"]["read_from_it"]["y"] = {"accuracy": 0.671, "low": 0.65, "high": 0.69}
    made = card(audit, {**MANIFEST, "stages": []})
    page = render(made)
    for text in (page, "\n".join(as_lines(made)), as_text(audit)):
        assert "87.3 %" in text
        assert "67.1 %" not in text
        assert "by the label that is sent; the fixed reader D_y 12.6 %" in text


def test_a_certificate_over_tracks_and_what_attackers_of_tracks_reach_are_on_the_card():
    from edgeveil.trainer.report.card_page import as_lines, render

    audit = document()
    row = {"tracks": 90, "right": {"forest": 0.25, "1-D CNN": 0.26}, "people_shuffled": {"forest": 0.24}, "chance": 0.2}
    audit["streams"] = {
        **MANIFEST["stream"],
        "tracks": [{"releases": 16, **row}, {"releases": 64, "not_run": "2 recordings of 64 readings"}],
        "certificate": {"given": True},
        "sentence": "For all releases of one track together, an adversary who knows y.",
    }
    made = card(audit, MANIFEST)
    assert made["guarantees"] == [{"artefact": "tflite-int8", "sentence": audit["streams"]["sentence"]}]
    page = render(made)
    assert "26.0 %" in page
    assert "2 recordings of 64 readings" in page
    assert any("tracks of 16: best attack right 26.0 %" in line for line in as_lines(made))
    audit["streams"]["certificate"]["given"] = False
    assert card(audit, MANIFEST)["guarantees"] == []


def test_ink_and_slant_are_measured_of_digits_and_of_what_a_recipe_names_alone():
    def pictures(**known):
        data = dataset(60)
        spec = InputSpec("image", (8, 8, 1), "uint8", 0, 255)
        return replace(data, input=spec, x=np.zeros((60, 8, 8, 1), np.uint8), known=known)

    assert utility.moments_of(pictures(), ()) == ()
    assert utility.moments_of(pictures(), ("pixels", "slant")) == ("slant",)
    assert utility.moments_of(pictures(), ("moments",)) == ("ink", "slant", "stroke")
    assert utility.moments_of(pictures(digit=Known(np.zeros(60, int), ("0",))), ()) == ("ink", "slant", "stroke")
    assert [one.name for one in utility.properties(pictures())] == ["size"]
    frames = pictures().x[pictures().slices.test]
    assert "ink" not in retained.correlations(pictures(), pictures().part("test"), frames)


def test_a_donor_of_floats_is_found_although_it_was_rounded_on_its_way():
    data = replace(dataset(60), attributes={"size": np.arange(60.0)})
    x = np.random.default_rng(0).uniform(-8, 8, (60, 5)).astype(np.float32)
    data = replace(data, x=x, input=InputSpec("vector", (5,), "float32", (-8.0,) * 5, (8.0,) * 5))
    test, donors = data.part("test"), np.resize(data.slices.training(), len(data.slices.test))
    sent = np.nextafter(x[donors], np.float32(9))
    assert (sent != x[donors]).all()
    found = retained.correlations(data, test, sent)
    residual = (utility.residual(values, test.y) for values in (test.index.astype(float), donors.astype(float)))
    assert found["size"] == pytest.approx(np.corrcoef(*residual)[0, 1], abs=1e-4)
    assert retained.correlations(data, test, sent + np.float32(0.01)) == {}
