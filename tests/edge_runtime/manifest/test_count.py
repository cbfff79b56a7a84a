"""What a manifest may say of counts: each wrong key is refused with its place, and one track's part is bounded."""

import copy
import json
import re

import jsonschema
import pytest

from edgeveil.edge_runtime.bundle.audit_schema_1 import as_schema_2
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.manifest.capture import pipeline_sha256
from edgeveil.edge_runtime.manifest.count import CountRules, check_count, parse_count
from edgeveil.edge_runtime.manifest.schema import check_manifest
from edgeveil.trainer.audit.card import card
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.recipe.training_sections import revealed
from tests.support import bundles
from tests.support.checkout import ROOT

COUNT = {
    "lines": [{"name": "door", "start": [0, 256], "end": [424, 256]}],
    "zones": [{"name": "hall", "corners": [[0, 0], [0, 200], [200.5, 200]]}],
    "period_s": 60,
    "dwell_s": [10, 60],
    "margin_px": 16.0,
    "noise": {"micro_epsilon": 500_000, "most_each": 2, "most_micro_epsilon": 10**8},
}
EXACT = {**COUNT, "noise": None}
SCHEMA = json.loads((ROOT / "docs/reference/schemas/manifest.schema.json").read_text())["properties"]["count"]
IDENTIFIERS = {"$defs": {"identifier": {"type": "string"}}}
RECIPE = """
[count]
period_s = 60
[[count.lines]]
name = "door"
start = [0.0, 256.0]
end = [424.0, 256.0]
"""
ZONE = '[[count.zones]]\nname = "hall"\ncorners = [[0.0, 0.0], [9.0, 0.0], [9.0, 9.0]]\n'


def manifest(**changes):
    example, members = bundles.captured_example()
    return {**example, "count": {**copy.deepcopy(COUNT), **changes}}, members


def test_a_manifest_with_counts_is_read_whole():
    example, _ = manifest()
    rules = check_manifest(example, sealed=False).counts
    assert rules == parse_count(COUNT)
    assert [name for name in rules.names if name[0] == "line"] == [("line", "door", "in"), ("line", "door", "out")]
    assert [what for _, _, what in rules.names[2:]] == ["occupancy", "dwell-0", "dwell-1", "dwell-2"]
    assert rules.sensitivity == 2 * 2 + 1 + 2
    assert check_manifest(manifest(noise=None)[0], sealed=False).counts.noise is None
    assert check_manifest(bundles.captured_example()[0], sealed=False).counts is None


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"period_s": 0}, "count.period_s"),
        ({"period_s": 9}, "count.period_s"),
        ({"lines": [{"name": "door", "start": [0, 513], "end": [9, 9]}]}, "count.lines[0].start"),
        ({"lines": [{"name": "door", "start": [0, -1], "end": [9, 9]}]}, "count.lines[0].start"),
        ({"lines": [{"name": "door", "start": [9, 9], "end": [9, 9]}]}, "count.lines[0]"),
        ({"lines": 2 * COUNT["lines"]}, "count.lines"),
        ({"zones": [{"name": "hall", "corners": [[0, 0], [0, 9], [425, 9]]}]}, "count.zones[0].corners[2]"),
        ({"zones": [{"name": "hall", "corners": [[0, 0], [4, 4], [9, 9]]}]}, "count.zones[0].corners"),
        ({"lines": [], "zones": [], "dwell_s": []}, "count"),
        ({"dwell_s": [60, 10]}, "count.dwell_s"),
        ({"zones": []}, "count.dwell_s"),
        ({"margin_px": 0}, "count.margin_px"),
        ({"noise": {"micro_epsilon": 0, "most_each": 1, "most_micro_epsilon": 9}}, "count.noise.micro_epsilon"),
        ({"noise": {"micro_epsilon": 9, "most_each": 0, "most_micro_epsilon": 9}}, "count.noise.most_each"),
        ({"noise": {"micro_epsilon": 9, "most_each": 1, "most_micro_epsilon": 8}}, "count.noise.most_micro_epsilon"),
        ({"slots": 2}, "count"),
    ],
)
def test_what_cannot_be_counted_is_refused_with_its_place(changes, place):
    with pytest.raises(BundleRefused, match=f"to follow: {re.escape(place)}: "):
        check_manifest(manifest(**changes)[0], sealed=False)


def test_without_people_there_is_nothing_to_count():
    with pytest.raises(BundleRefused, match=r"capture\.crop"):
        check_count(COUNT, None)


def test_the_schema_takes_what_the_code_takes():
    jsonschema.validate(COUNT, {**SCHEMA, **IDENTIFIERS})
    for wrong in ({"period_s": 9}, {"margin_px": 0}, {"slots": 2}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**COUNT, **wrong}, {**SCHEMA, **IDENTIFIERS})


def test_an_audit_is_of_these_counts():
    with_counts, _ = manifest()
    others, _ = manifest(period_s=600)
    plain, _ = bundles.captured_example()
    hashes = {pipeline_sha256(one, "tflite-int8", {}) for one in (with_counts, others, plain)}
    assert len(hashes) == 3


def test_a_recipe_says_the_same_and_its_mistakes_are_one_sentence():
    text = Recipe.find("overhead-prgan").toml()
    section = Recipe.parse(text + RECIPE).count.manifest()
    assert section["lines"] == COUNT["lines"]
    assert section["noise"] is None
    noisy = Recipe.parse(text + RECIPE + "[count.noise]\nepsilon = 0.5\nmost_a_day = 100.0\n")
    assert noisy.count.manifest()["noise"] == {**COUNT["noise"], "most_each": 1}
    assert Recipe.parse(noisy.toml()) == noisy
    for wrong, said in (
        (RECIPE.replace("60", "0"), "count.period_s"),
        (RECIPE.replace("424.0", "500.0"), r"count.lines\[0\].end: expected \[row, column\] in the picture"),
        (RECIPE + ZONE.replace("9.0]]", "600.0]]"), r"count.zones\[0\].corners\[2\]: expected .* in the picture"),
        (RECIPE + "[count.noise]\nepsilon = 0.0\nmost_a_day = 1.0\n", "count.noise.epsilon"),
        (RECIPE + "[count.noise]\nepsilon = -1.0\nmost_a_day = 1.0\n", "count.noise.epsilon"),
        (RECIPE.replace("start", "begin"), "`count.lines.0.begin` is not a key"),
    ):
        with pytest.raises(BadInput, match=said):
            Recipe.parse(text + wrong)


def test_the_card_says_what_a_count_tells_of_one_person():
    exact = CountRules([], [], 60, [], 16.0, None)
    assert "a count of 1 says that somebody was there" in revealed(exact)
    told = revealed(parse_count(COUNT))
    assert "scale 14" in told  # 7 / 0.5
    assert "at most e^0.5 and a day's records by e^100" in told
    assert "if one person's presence leaves the tracks of others as they are" in told
    assert "if it makes k tracks of one person, exponents are k times as large. Nothing here bounds k" in told
    assert f"at most {parse_count(COUNT).bits:.1f} bits" in told


def test_the_privacy_card_has_that_sentence():
    example, _ = bundles.artefact_example()
    audit = as_schema_2({"others": [], **bundles.audit_document(example)})
    noisy, exact, none = (card(audit, {**example, **more}) for more in ({"count": COUNT}, {"count": EXACT}, {}))
    assert [one["artefact"] for one in noisy["guarantees"]].count("counts of people") == 1
    assert revealed(parse_count(COUNT)) in [one["sentence"] for one in noisy["guarantees"]]
    assert revealed(parse_count(EXACT)) in exact["warnings"]
    assert not [one for one in none["guarantees"] if one["artefact"] == "counts of people"]
    assert len(exact["warnings"]) == len(none["warnings"]) + 1 == len(noisy["warnings"]) + 1
