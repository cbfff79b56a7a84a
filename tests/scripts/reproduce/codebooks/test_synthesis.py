"""codebooks/synthesis.py goes on where it stopped, and takes no failure of its own for a way that is refused."""

import json
import sys

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.recipe.schema import Recipe
from scripts.reproduce.codebooks import synthesis


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Runs the script for faces, seed 0; what it was asked for, in turn."""
    calls = []

    def row(_recipe, way, seed, out, budget):
        assert (out, budget) == (tmp_path, "quick")
        calls.append((way, seed))
        return {"refused": "Too few people."} if way == "centroid" else {"attack": {}}

    monkeypatch.setattr(synthesis, "load_tensorflow", lambda: None)
    monkeypatch.setattr(synthesis, "row", row)
    monkeypatch.setattr(synthesis, "beside", lambda _recipe, seed, **_: calls.append(("beside", seed)) or {})
    record = tmp_path / "synthesis.json"
    words = ["x", "--out", str(tmp_path), "--data", "faces", "--seeds", "0", "--record", str(record)]
    monkeypatch.setattr(sys, "argv", words)
    return record, calls


def test_what_is_there_is_not_measured_again_and_what_was_refused_is(asked):
    record, calls = asked
    synthesis.main()
    assert calls == [("beside", 0), ("donor", 0), ("receiver", 0), ("centroid", 0), ("decoder", 0)]
    calls.clear()
    synthesis.main()
    assert calls == [("centroid", 0)]
    rows = json.loads(record.read_text())["rows"]
    assert [one["synthesis"] for one in rows] == ["beside", "donor", "receiver", "centroid", "decoder"]


def test_a_row_of_another_recipe_is_measured_again_and_others_rows_stay(asked):
    record, calls = asked
    synthesis.main()
    document = json.loads(record.read_text())
    document["rows"][1]["settings"]["perturber"]["codes"] = 3
    document["rows"].append({**document["rows"][1], "data": "wifi"})
    record.write_text(json.dumps(document))
    calls.clear()
    synthesis.main()
    assert ("donor", 0) in calls
    rows = json.loads(record.read_text())["rows"]
    assert [one["data"] for one in rows] == ["faces"] * 5 + ["wifi"]
    assert rows[1]["settings"]["perturber"]["codes"] == Recipe.find("faces-codebook").perturber.codes


@pytest.mark.parametrize(("part", "key"), [("perturber", "price"), ("classifiers", "shift")])
def test_raw_readings_are_measured_again_for_another_classifier_alone(asked, part, key):
    record, calls = asked
    synthesis.main()
    document = json.loads(record.read_text())
    for row in document["rows"]:
        row["settings"][part][key] = 3
    record.write_text(json.dumps(document))
    calls.clear()
    synthesis.main()
    assert (("beside", 0) in calls) == (part == "classifiers")
    assert ("donor", 0) in calls


def test_data_that_are_not_there_are_no_refusal_of_a_way(tmp_path, monkeypatch):
    class Run:
        folder = tmp_path / "own"

        def dataset(self):
            raise BadInput("EDGEVEIL_DATA is not set.")

    monkeypatch.setattr(synthesis, "made", lambda *_words: (Run(), None))
    with pytest.raises(BadInput, match="EDGEVEIL_DATA"):
        synthesis.row(Recipe.find("faces-codebook"), "decoder", 0, tmp_path, "quick")


def test_a_pool_that_may_not_be_shown_is_a_row_that_says_why(tmp_path, monkeypatch):
    class Run:
        folder = tmp_path / "own"

    def refuse(*_words):
        raise BadInput("No consent.")

    monkeypatch.setattr(synthesis, "made", lambda *_words: (Run(), None))
    monkeypatch.setattr(synthesis, "receiver_pool", refuse)
    found = synthesis.row(Recipe.find("faces-codebook"), "receiver", 0, tmp_path, "quick")
    assert found == {"refused": "No consent."}


def test_a_way_that_cannot_be_trained_is_a_row_that_says_why(tmp_path, monkeypatch):
    class Run:
        folder = tmp_path / "own"

        def dataset(self):
            return None

    def train(*_words, **_options):
        raise BadInput("A code has 3 people; 10 are needed.")

    monkeypatch.setattr(synthesis, "made", lambda *_words: (Run(), None))
    monkeypatch.setattr(synthesis, "train", train)
    found = synthesis.row(Recipe.find("faces-codebook"), "centroid", 0, tmp_path, "quick")
    assert found == {"refused": "A code has 3 people; 10 are needed."}
