"""The parts of an audit beside its attacks: what can be counted, what is still of use, and what was asked."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import jsonschema
import numpy as np
import pytest
import referencing

from edgeveil.edge_runtime.bundle.audit_schema_1 import as_schema_2
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit import findings as of
from edgeveil.trainer.audit.card import card, current
from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.sections import SECTIONS, certificate_section, counted_pufferfish, pufferfish, retained
from edgeveil.trainer.audit.sections import retained as utility
from edgeveil.trainer.audit.sections.stream_bound import section as stream_bound_section
from edgeveil.trainer.audit.sections.training import promised
from edgeveil.trainer.audit.subject import RELEASED, SENT, Bottleneck
from edgeveil.trainer.audit.text import answers_in_words, summary
from edgeveil.trainer.audit.verdict import held_to, sentences
from edgeveil.trainer.datasets.base import Dataset, InputSpec, Known, Slices
from edgeveil.trainer.measures.pufferfish import counted
from edgeveil.trainer.perturbers.codebook import stream_codes
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.recipe.training_sections import Limits
from edgeveil.trainer.report.card_page import as_lines, render
from tests.support import bundles
from tests.support.audit_documents import document
from tests.support.checkout import ROOT

SCHEMAS = {
    name: json.loads((ROOT / "docs/reference/schemas" / name).read_text())
    for name in ("audit.schema.json", "privacy.schema.json")
}
REGISTRY = referencing.Registry().with_resources(
    [(name, referencing.Resource.from_contents(schema)) for name, schema in SCHEMAS.items()]
)
CARD = jsonschema.Draft202012Validator(SCHEMAS["privacy.schema.json"], registry=REGISTRY)


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


def section(data: Dataset, leak: float, **changes: object) -> dict[tuple[str, str], Finding]:
    """The certificate where c is z with probability ``leak`` and else noise, two codes a class; by name and figure."""
    rng = np.random.default_rng(1)
    noise = rng.integers(0, 2, len(data.y))
    code = 2 * data.y + np.where(rng.random(len(data.y)) < leak, data.z, noise)
    return certified(data, Bottleneck("c", "c", None, 4, False), {SENT: code, RELEASED: code}, **changes)


def certified(data: Dataset, found: Bottleneck, outputs: dict, **changes: object) -> dict[tuple[str, str], Finding]:
    asked = {"of": "z", "table": None, "tried": 1, "confidence": 0.95, "strata": None, "seed": 0, **changes}
    return {(one.name, one.figure): one for one in certificate_section.section(data, found, outputs, **asked)}


AVERAGED, EVERY = (certificate_section.AVERAGE, "right"), (certificate_section.EVERY, "factor")
OF_CLASS = certificate_section.OF_CLASS, "factor"
OVER_NULL = certificate_section.OVER_NULL, "bits-counted"


def test_a_certificate_states_its_assumptions_and_counts_subjects():
    data = dataset(30_000)
    clean = section(data, 0.0)
    average = clean[AVERAGED]
    assert average.bound
    assert (average.question, average.more["units"], average.more["unit"]) == ("z", 1000, "subjects")
    assert average.text.startswith(
        "For one sample, an adversary who knows y and nothing else of x is right on average at most"
    )
    assert "with 95 % confidence, for subjects drawn like the " in average.text
    assert "never saw" in average.text
    assert average.more["scope"].startswith("single release only")
    assert average.null == pytest.approx(0.5, abs=0.01)
    leaky = section(data, 0.5)
    assert leaky[AVERAGED].more["plug_in"] == pytest.approx(0.75, abs=0.02)
    assert leaky[AVERAGED].interval == (leaky[AVERAGED].more["plug_in"], leaky[AVERAGED].value)
    assert leaky[AVERAGED].more["plug_in"] > average.value - 0.1
    assert leaky[certificate_section.AVERAGE, "bits-counted"].value > 5 * leaky[AVERAGED].more["null_bits_high"]
    assert section(data, 0.0, tried=50)[AVERAGED].value > average.value
    later = section(data, 0.0, looks=3)
    for name in (AVERAGED, EVERY):
        assert later[name].value > clean[name].value
        assert later[name].text.count("3 other configurations were audited on these rows before") == 1
        assert (later[name].more["looks"], clean[name].more["looks"]) == (3, 0)
    assert clean[OVER_NULL].interval[0] < 0 < clean[OVER_NULL].interval[1]
    assert leaky[OVER_NULL].interval[0] < 1 - 0.8113 < leaky[OVER_NULL].interval[1]  # right in 3 of 4: 1 - h(1/4) bits
    assert clean[EVERY].value < 1.8 < leaky[EVERY].value
    assert clean[OF_CLASS].bound
    assert clean[OF_CLASS].value < 1.8 < leaky[OF_CLASS].value
    unseen = np.concatenate([data.slices.attack, data.slices.test])
    assert clean[EVERY].rows == len(np.unique(data.cluster[unseen]))
    assert ("of attack and test," if len(data.slices.attack) else "of test,") in clean[EVERY].text
    for one in (*clean.values(), *leaky.values()):
        assert one.kind == "certificate"
        json.dumps(one.as_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("hold", "question"), [("track", "z"), ("period", "z"), ("frame", "channel"), ("bout", "channel")]
)
def test_a_bound_on_one_release_is_none_on_z_where_codes_of_one_person_add_up(hold, question):
    assert section(dataset(30_000), 0.0, stream={"hold": hold})[AVERAGED].question == question


def test_a_code_that_is_merged_is_none_that_lacks_a_bound():
    data = dataset(30_000)
    code = 2 * data.y + np.random.default_rng(1).integers(0, 2, len(data.y))
    released = np.where(code == 1, 0, code)
    table = stream_codes.integers(np.eye(4)[[0, 0, 2, 3]])
    outputs = {SENT: code, RELEASED: released}
    found = certified(data, Bottleneck("c", "c2", "t", 4, False), outputs, table=table)[OF_CLASS]
    assert found.bound
    assert (found.more["codes"], found.more["unseen"]) == (3, 0)
    mixed = certified(data, Bottleneck("c", "c2", "t", 4, True), outputs, table=table)
    assert not [name for name, _ in mixed if name == certificate_section.OF_CLASS]


def test_what_is_counted_is_shown_over_halves_of_the_people():
    data = dataset(30_000)
    clean, leaky = (section(data, leak)[AVERAGED].more["people_splits"] for leak in (0.0, 0.5))
    assert (clean["people"], clean["halvings"]) == (1000, 8)
    # Counting noise helps whoever counts and guesses on the same people, never who learned on others.
    assert clean["learned_on_others"]["mean"] == pytest.approx(0.5, abs=0.01)
    assert clean["plug_in"]["low"] > 0.5
    assert leaky["learned_on_others"]["low"] > 0.72
    assert "8 halvings of the people" in section(data, 0.0)[AVERAGED].text
    few = section(dataset(3000, kind=""), 0.0)
    assert next(one for (name, _), one in few.items() if name == AVERAGED[0]).more["people_splits"] is None


def test_one_person_who_differs_shows_in_the_spread():
    rng = np.random.default_rng(0)
    person = np.arange(400) // 100
    y, z = np.zeros(400, int), person % 2
    code = np.where(person == 0, 0, 1)  # only the first of four people has a code of its own
    found = certificate_section.people_certificate(y, code, z, person, q=np.eye(2), classes=(1, 2), rng=rng)
    assert found["learned_on_others"]["low"] < 0.3 < found["learned_on_others"]["high"]
    assert certificate_section.people_certificate(y, code, z, person % 3, q=np.eye(2), classes=(1, 2), rng=rng) is None


def test_too_few_subjects_are_said_with_the_number_that_is_needed():
    few = section(dataset(900), 0.0)[certificate_section.AVERAGE, ""]
    assert (few.bound, few.value) == (False, None)
    assert "Too few subjects for a certificate: 30 were counted, and at least 156 are needed" in few.not_run


def test_a_channel_is_bounded_for_any_population():
    data = dataset(30_000)
    flat = np.kron(np.eye(2), np.full((2, 2), 2)).astype(np.uint32)
    found = section(data, 0.5, table=flat)
    capacity, variation = (certificate_section.CAPACITY, "factor"), ("total variation, at most", "number")
    assert found[capacity].value == pytest.approx(1)
    assert found[variation].value == 0
    assert "does not raise the chance" in found[capacity].text
    noisy = section(data, 0.5, table=np.kron(np.eye(2), np.array([[3, 1], [1, 3]])).astype(np.uint32))
    assert noisy[variation].value == pytest.approx(0.5)
    again = [noisy[f"{t} of one sample, counted", "right"].value for t in (1, 4, 16)]
    assert again[2] > again[0] + 0.05  # the same reading, drawn again and again


def test_strata_must_be_attributes():
    with pytest.raises(BadInput, match="there are: size"):
        certificate_section.strata_of(dataset(60), ["light"])


@pytest.fixture(scope="module")
def useful() -> dict:
    """Collateral utility where x' keeps y and size and carries nothing of z: findings by output, name and question."""
    data = dataset(2400)
    frames = data.x.copy()
    frames[:, 1] = 0
    utility.EFFORT["test"] = utility.Effort(rows=1600, epochs=6)
    found = retained.section(retained.Asked(data, "parity", ("size",), "test", 0), frames)
    means = np.stack([data.x[data.y == label].mean(axis=0) for label in (0, 1)])[data.y].astype(np.float32)
    found += retained.label_only(retained.Asked(data, "parity", (), "test", 0), means, data.y)
    return {(one.of, one.name, one.question): one for one in found}


@pytest.mark.nightly  # by day its readers run in test_end_to_end.py
def test_what_is_kept_of_a_third_attribute_is_found_and_label_only_keeps_none(useful):
    read = useful[of.SENT, "read from it", "size"]
    assert read.interval[0] > 0.9
    assert read.more["named_by_recipe"]
    assert abs(useful[of.LABEL_ONLY, "read from it", "size"].value) < 0.2
    assert useful[of.SENT, "trained on it", "parity"].value > 0.9
    assert useful[of.RAW, "trained on it", "size"].value > 0.9
    assert (of.SENT, "read from it", "parity") not in useful  # y has its readers


@pytest.mark.nightly  # by day as above
def test_a_discriminator_tells_means_and_not_donors(useful):
    means, donors = (useful[side, "discriminator", "told apart from raw samples"] for side in (of.LABEL_ONLY, of.DONOR))
    assert means.value > 0.9
    # Not one half: a donor that was shown to the discriminator as made is shown again.
    assert donors.value < 0.65


def test_a_correlations_interval_covers_and_widens_with_clusters():
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        a = rng.normal(size=80)
        b = 0.6 * a + 0.8 * rng.normal(size=80)
        found = utility.correlation(a, b, np.zeros(80, int), None)
        hits += found.low < 0.6 < found.high
    assert 180 <= hits <= 200
    a = np.repeat(rng.normal(size=40), 20)
    b = np.repeat(rng.normal(size=40), 20)
    y = np.zeros(800, int)
    alone, together = utility.correlation(a, b, y, None), utility.correlation(a, b, y, np.arange(800) // 20)
    assert together.high - together.low > 3 * (alone.high - alone.low)


def test_the_diagnostic_is_that_of_one_model_and_never_a_guarantee():
    data = dataset(300)

    def sure(u: np.ndarray, *, training: bool) -> np.ndarray:
        return 9 * np.stack([-u[:, 1], u[:, 1]], axis=1)

    frames = data.x[data.slices.test].copy()
    frames[:, 1] = -1  # 0 in the unit cube: this classifier says one half
    found = {(one.name, one.of): one for one in pufferfish.section(data, frames, sure, None)}
    assert [found[f"shift of classifier D, {end}", "sent"].value for end in ("mean", "largest")] == [0, 0]
    assert found["shift of classifier D, largest", "raw"].value > 0.4
    assert {one.question for one in found.values()} == {"diagnostic of one model"}
    assert not any(one.bound for one in found.values())
    assert "no guarantee" in found["shift of classifier D, mean", "sent"].text


@pytest.mark.parametrize(("sure_of", "words"), [(1.0, "which holds"), (0.5, "does not hold")])
def test_what_corollary_b6_assumes_of_an_attack_is_measured(sure_of, words):
    data = dataset(300)
    test = data.part("test")

    def right(u: np.ndarray, *, training: bool) -> np.ndarray:
        return 50 * np.eye(2)[test.z]

    answers = np.where(np.eye(2)[test.z] > 0, sure_of, 1 - sure_of)
    attack = SimpleNamespace(sure={"test": answers}, test=test, row=SimpleNamespace(name="another network"))
    found = {one.name: one for one in pufferfish.section(data, test.x, right, attack)}
    assert found["error of the best attack, mean"].value == pytest.approx(1 - sure_of)
    assert words in found["error of the best attack, largest"].text


def test_every_section_in_the_folder_is_found():
    folder = ROOT / "trainer/audit/sections"
    written = {path.stem for path in folder.glob("*.py") if "(Section):" in path.read_text()}
    assert {kind.module.rpartition(".")[2] for kind in SECTIONS.kinds().values()} == written


def test_a_counted_pufferfish_bound_is_stated_with_its_assumptions_or_what_it_needs():
    rng = np.random.default_rng(0)
    y, z, code = rng.integers(0, 2, 4000), rng.integers(0, 2, 4000), rng.integers(0, 4, 4000)
    settings = {"shape": (2, 4, 2), "theta": np.full((2, 2), 0.5), "tried": 3}
    found = counted_pufferfish.section(counted(y, code, z, rng=rng, **settings), "subjects")
    assert all(one.bound and one.question == "channel" and one.interval[1] == one.value for one in found)
    by_name = {one.name: one for one in found}
    zero = by_name["counted Pufferfish over the recipe's prior, delta at epsilon 0"]
    assert 0 < zero.value < 0.2
    assert (
        "-Pufferfish over the recipe's prior, with 95 % confidence for one sample, given y, for subjects" in zero.text
    )
    assert by_name["counted Pufferfish, loss of a code"].figure == "epsilon"
    later = counted_pufferfish.section(counted(y, code, z, rng=rng, **settings), "subjects", tried=3, looks=1)
    assert all("3 configurations tried, if fixed beforehand; another configuration was" in one.text for one in later)
    few = counted_pufferfish.section(counted(y[:60], code[:60], z[:60], rng=rng, **settings), "subjects")
    assert [(one.value, "and 30 are needed" in one.not_run) for one in few] == [(None, True)]


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
    counted = section(dataset(30_000), 0.0)
    audit["findings"] += [one.as_json() for one in counted.values()]
    made = card(audit, MANIFEST)
    said = [one["sentence"] for one in made["guarantees"]]
    bounds = EVERY, OF_CLASS, AVERAGED, (certificate_section.CAPACITY, "factor")
    assert said == [counted[name].text for name in bounds]
    assert said[0].startswith("No code raises the chance of any value of z, given y, by more than a factor F = 1.")
    assert not any("classifier D" in text for text in said)
    assert any("Nobody walks here." in line for line in made["warnings"])
    assert any("records of other people" in line for line in made["warnings"])


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
    most = Finding("tracks", "summed", "auc", 0.8, text="Over 256 readings it is read.", more={"headline": True})
    audit["findings"].append(most.as_json())
    manifest = {**MANIFEST, "stages": [{"stage": "table", "op": op}], "capture": capture, "stream": held}
    said = [line for line in card(audit, manifest)["warnings"] if "nothing holds it" in line]
    assert bool(said) == warned
    assert all(line.endswith("Over 256 readings it is read.") for line in said)
    assert "Tracks: Over 256 readings it is read." in summary(audit)


def test_the_card_says_for_how_many_frames_of_a_stream_a_bound_holds():
    audit, manifest = document(), bundles.held_example()[0]
    several = {**manifest["stream"], "draws": 2}
    first = [{"stage": "hold", "op": "first", "input": "label", "output": "held"}]
    unbounded = {**manifest, "stream": several, "stages": [*manifest["stages"][:2], *first, *manifest["stages"][3:]]}
    (held,), (none,) = stream_bound_section(manifest), stream_bound_section(unbounded)
    audit["findings"].append(held.as_json())
    assert [one["sentence"] for one in card(audit, MANIFEST)["guarantees"]] == [held.text]
    audit["findings"][-1] = none.as_json()
    made = card(audit, MANIFEST)
    assert made["guarantees"] == []
    assert none.not_run in made["warnings"]
    assert not any(none.not_run in line for line in made["not_tested"])
    CARD.validate(json.loads(json.dumps(made, allow_nan=False)))
    assert none.not_run in render(made)


def test_one_value_of_y_is_kept_and_the_fixed_reader_is_named():
    audit = document()
    ours = [one["more"].get("kind") == "reader" and "of" not in one for one in audit["findings"]]
    audit["findings"] = [one for one, leave in zip(audit["findings"], ours, strict=True) if not leave]
    reads = [("the label that is sent", 0.873, 0.88), ("D_y", 0.126, 0.13)]
    facts = {"more": {"kind": "reader"}, "interval": (0.1, 0.9)}
    audit["findings"] += [
        Finding("parity", name, "right", value, chosen_by=chosen, **facts).as_json() for name, value, chosen in reads
    ]
    kept = dict(answers_in_words(audit))["What is kept"]
    share, reader = "87.3 % [10.0 %, 90.0 %] of the time from what is sent", "the label that is sent"
    assert kept.startswith(f"parity is read right {share} (by {reader}; by D_y, which is fixed, 12.6 %")
    assert f"What is kept: {kept}" in summary(audit)


def test_a_promise_that_is_none_is_a_warning_and_no_guarantee():
    audit = document()
    none = {"epsilon": 1.0, "given": False, "sentence": "There is no guarantee for the people behind it."}
    audit["findings"] += [promised("training", none, "[private]").as_json()]
    made = card(audit, MANIFEST)
    assert made["guarantees"] == []
    assert none["sentence"] in made["warnings"]
    audit["findings"][-1] = promised("training", {**none, "given": True, "sentence": "Paid."}, "[private]").as_json()
    made = card(audit, MANIFEST)
    assert made["guarantees"] == [{"artefact": "tflite-int8", "sentence": "Paid."}]


def test_the_card_is_a_function_of_the_audit_and_the_manifest_and_of_its_schema():
    audit = document()
    made = card(audit, MANIFEST)
    assert card(json.loads(json.dumps(audit)), json.loads(json.dumps(MANIFEST))) == made
    CARD.validate(json.loads(json.dumps(made, allow_nan=False)))
    assert made["artefacts"][0]["findings"] == audit["findings"]
    assert made["artefacts"][0]["verdict"] == audit["verdict"]


def test_limits_are_met_by_upper_ends():
    asked = Limits(target_accuracy=0.5, attack_points=10.0, bits=0.5)
    held = held_to(asked, document(best=0.69)["verdict"])
    assert [row["limit"] for row in held["exceeded"]] == ["attack_points"]
    assert held["found"] == {"attack_points": 12.0, "bits": 0.01}  # the CNN's 70 + 2 less 60; 61 + 2 - 50 balanced
    assert sentences(held) == [
        "Attacks may reach 12.0 points above y alone (upper end of 95 %): the recipe allows 10 (limits.attack_points), "
        "exceeded by 2.0."
    ]
    assert held_to(asked, document(best=0.65, bits=0.7)["verdict"])["exceeded"][0]["limit"] == "bits"
    assert held_to(Limits(target_accuracy=0.5), document()["verdict"])["exceeded"] == []
    unknown = {"upper": {"points": None, "bits": 0.1}}
    assert "no upper end to compare" in sentences(held_to(asked, unknown))[0]


def test_a_certificate_from_a_perturber_that_has_none_is_refused_at_the_recipe():
    table = Recipe.find("mnist-prgan").model_dump(exclude_none=True)
    with pytest.raises(BadInput, match=r'no `\[certificate\]` for perturber.kind = "prgan"'):
        Recipe.check({**table, "certificate": {"tried": 3}})
    assert Recipe.find("mnist-codebook").certificate.tried > 1


def test_a_card_of_0_2_is_shown_in_the_words_of_today():
    """It is formed from the audit of that version; what that version wrote on the card is not read."""
    audit = json.loads((ROOT / "tests/support/audit_of_0_2.json").read_text())
    described = {"kind": "codebook", "substituted": False, "identity_allowed": False, "target": "parity"}
    manifest = {"name": "of 0.2", "perturber": {**described, "sensitive": "less-than-five", "target_classes": []}}
    whole = card(as_schema_2(audit), manifest)
    (shown,) = current(whole)["artefacts"]
    assert shown["verdict"]["word"] in ("cannot tell", "leaks")
    found = audit["certificate"]
    told = [found["sentence"], found["per_code"]["sentence"], found["population_free"]]
    assert [one["sentence"] for one in whole["guarantees"]] == told
    worst = audit["worst_adaptive"]
    page, lines = render(whole), "\n".join(as_lines(whole))
    for text in (page, lines):
        assert worst["name"] in text
        assert f"{100 * worst['accuracy']:.1f} %" in text
        assert "is read right" in re.sub(r"<[^>]+>", "", text)  # words of the page are explained where they stand


def test_what_an_audit_of_0_2_promised_is_promised_still():
    audit = json.loads((ROOT / "tests/support/audit_of_0_2.json").read_text())
    spending = {"sentence": "Epsilon 1 of one release.", "micro_epsilon": 10**6}
    training = {"given": True, "sentence": "Epsilon 3 of training."}
    head = {"given": False, "sentence": "No promise of the head."}
    read = as_schema_2({**audit, "spending": spending, "training": training, "head": head})
    told = [
        one["text"] for one in read["findings"] if one.get("bound") and one["name"] in ("spending", "training", "head")
    ]
    assert sorted(told) == ["Epsilon 1 of one release.", "Epsilon 3 of training."]


def test_a_certificate_over_tracks_and_what_attackers_of_tracks_reach_are_on_the_card():
    audit = document()
    more = {"kind": "streams"}
    reached = Finding("tracks", "16 frames, 1-D CNN", "right", 0.26, null=0.2, rows=90, more=more)
    few = Finding("tracks", "64 frames", not_run="2 recordings of 64 readings", more=more)
    text = "For all samples of one track together, an adversary who knows y."
    bound = Finding("tracks", "all frames", "right", 0.3, null=0.2, bound=True, text=text, more=more)
    audit["findings"] += [one.as_json() for one in (reached, few, bound)]
    made = card(audit, MANIFEST)
    assert made["guarantees"] == [{"artefact": "tflite-int8", "sentence": text}]
    page = render(made)
    for words in ("26.0 %", "2 recordings of 64 readings", text):
        assert words in page
        assert any(words in line for line in as_lines(made))


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
    assert found["size"].estimate == pytest.approx(np.corrcoef(*residual)[0, 1], abs=1e-4)
    assert retained.correlations(data, test, sent + np.float32(0.01)) == {}
