"""The search that the scripts of vendors' tools share: which recipes, what is recorded, and when it has failed."""

import json
from pathlib import Path

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.recipe.schema import Recipe
from scripts.reproduce.estimator import micro_bytes, survey, untrained

NETWORKS = {"faces-prgan": "a network", "wq": None, "wifi-prgan": "one that fails"}


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Runs a search of a tool that knows ``NETWORKS``; returns its exit code, the names asked for, and the record."""
    result, names = tmp_path / "a-tool.json", []

    def row(name, one, *, python):
        assert python == Path("venv/python")
        return {"recipe": name, **({"failed": "no code"} if "fails" in one else {})}

    def rows(asked, make, work):
        names.extend(asked)
        assert work == Path("runs/a-tool")
        for name, one in NETWORKS.items():
            yield name, one and make(name, one)

    monkeypatch.setattr(untrained, "rows", rows)
    monkeypatch.setattr(survey, "load_tensorflow", lambda: None)
    tool = survey.Tool("a-tool", "version", lambda python: f"2 of {python}", row, failed="failed")

    def run(*words):
        monkeypatch.setattr("sys.argv", ["survey", "--python", "venv/python", *words])
        code = survey.survey(survey.__file__, "What it is.\n\nMore.", result, tool)
        return code, names, json.loads(result.read_text()) if result.exists() else None

    return run


def test_one_recipe_of_each_form_and_what_failed(ask):
    code, names, record = ask()
    assert (code, tuple(names)) == (3, untrained.FORMS)
    assert (record["made_by"], record["kind"]) == ("scripts/reproduce/estimator/survey.py", "a-tool")
    assert (record["what"], record["version"]) == ("What it is.", "2 of venv/python")
    assert record["rows"] == [{"recipe": "faces-prgan"}, {"recipe": "wifi-prgan", "failed": "no code"}]
    assert record["without_a_network"] == ["wq"]


def test_every_recipe_is_said_in_the_record_and_named_ones_leave_none(ask, monkeypatch):
    monkeypatch.delitem(NETWORKS, "wifi-prgan")
    code, names, record = ask("faces-prgan", "wq")
    assert (code, names, record) == (0, ["faces-prgan", "wq"], None)
    names.clear()
    code, names, record = ask("--every")
    assert (code, names) == (0, list(Recipe.names()))
    assert record["made_by"].endswith("survey.py --every")


def test_a_python_without_the_interpreter_is_one_sentence(tmp_path):
    with pytest.raises(BadInput, match="A Python with tflite-micro was expected"):
        micro_bytes.version(tmp_path / "none")
