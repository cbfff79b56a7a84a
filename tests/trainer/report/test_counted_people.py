"""What a bundle that counts, by a network that somebody gave, is in the forms of others: ML-BOM and assessment."""

import json
import re

import pytest

from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.manifest.count import parse_count
from edgeveil.trainer.audit.card import card
from edgeveil.trainer.recipe.training_sections import leaving, revealed
from edgeveil.trainer.report import ml_bom as dpia
from edgeveil.trainer.report.ml_bom import ml_bom
from tests.support import audit_documents, bundles
from tests.support.promised.counting_bundle import COUNT, counting_example
from tests.support.promised.detector_bundle import detector_example

NOISE = {"micro_epsilon": 500_000, "most_each": 1, "most_micro_epsilon": 10**8}
EXAMPLES = {
    "detector": detector_example,
    "depth": lambda: counting_example(noise=NOISE, dwell_s=[10.0]),
    "none": bundles.laplace_example,
}
AUDIT = {"others": [], **audit_documents.document()}


@pytest.fixture(params=EXAMPLES)
def kind(request):
    return request.param


@pytest.fixture
def sealed(kind, tmp_path):
    """A bundle, and a card as of an audit of it."""
    made = bundles.make_bundle(tmp_path, example=EXAMPLES[kind]())
    bundle = read_bundle(made.path, open_trust(made.trust))
    return bundle, card(AUDIT, bundle.manifest.document)


def test_the_model_card_lists_the_counts_and_the_detector_with_its_hash(kind, sealed):
    bundle, about = sealed
    made = json.loads(ml_bom(bundle, about))  # which checks it against CycloneDX's own schema
    model = made["metadata"]["component"]["modelCard"]
    counted = [one["format"] for one in model["modelParameters"]["outputs"] if "counts of people" in one["format"]]
    found = [one for one in made["components"] if one["bom-ref"] == "detector"]
    of_detector = [one["dependsOn"] for one in made["dependencies"] if one["ref"] == "detector"]
    if kind == "none":
        assert (counted, found, of_detector) == ([], [], [])
        return
    assert counted == [f"counts of people, {leaving(bundle.manifest.counts)}"]
    told = [*(one["name"] for one in model["considerations"]["ethicalConsiderations"])]
    told += [one["value"] for one in model["properties"]]
    assert revealed(bundle.manifest.counts) in told
    if kind == "depth":
        assert (found, of_detector) == ([], [])
        return
    file = "artefacts/detector.onnx"
    assert of_detector == [[file]]
    (member,) = (one for one in made["components"] if one["bom-ref"] == file)
    assert found[0]["hashes"] == member["hashes"]
    assert "not measured" in found[0]["description"]


def test_the_assessment_asks_why_people_are_counted_and_whose_the_detector_is(kind, sealed):
    bundle, about = sealed
    page = dpia.render(bundle, about, "test")
    asked = re.findall(r"<dt>(Who is counted|Why people are counted)</dt>", page)
    assert asked == {"none": [], "depth": ["Why people are counted"]}.get(
        kind, ["Who is counted", "Why people are counted"]
    )
    if kind != "none":
        assert f"counts of people, {leaving(bundle.manifest.counts)}" in page
        assert revealed(bundle.manifest.counts).replace("'", "&#39;") in page
    if kind == "detector":
        assert bundle.manifest.detector.entry["sha256"] in page
        assert "[to be filled in: whose it is, what it was trained on" in page


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "every 10 s, exactly: in and out over the line door; people in the zone hall"),
        ({"noise": NOISE, "dwell_s": [10.0]}, "with noise: .*in the zone hall and their stays in 2 bins"),
        ({"zones": []}, "exactly: in and out over the line door$"),
    ],
)
def test_what_leaves_is_said_in_words(change, words):
    assert re.search(words, leaving(parse_count({**COUNT, **change})))
