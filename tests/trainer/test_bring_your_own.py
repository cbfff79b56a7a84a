"""A user's own npz with subjects, from file to privacy card, by commands alone."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import referencing

from edge_runtime.errors import LimitNotMet
from trainer import cli
from trainer.audit import problem, utility
from trainer.recipe import Recipe

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
SUBJECTS, EACH = 48, 8


def schema(name: str) -> jsonschema.Draft202012Validator:
    """A schema of docs/schemas, which may name another of them."""
    documents = {path.name: json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")}
    resources = [(key, referencing.Resource.from_contents(value)) for key, value in documents.items()]
    registry = referencing.Registry().with_resources(resources)
    return jsonschema.Draft202012Validator(documents[name], registry=registry)


def edgeveil(*words: object) -> None:
    """A command of the user's, in this process; errors come out as they are."""
    cli.app([str(word) for word in words], standalone_mode=False)


@pytest.fixture(scope="module")
def trial():
    """Adversaries and readers with hardly any training: this is about the way, not about the numbers."""
    budget, effort = problem.BUDGETS["quick"], utility.EFFORT["quick"]
    problem.BUDGETS["quick"] = replace(budget, epochs=2, trees=5)
    utility.EFFORT["quick"] = utility.Effort(rows=200, epochs=2)
    yield
    problem.BUDGETS["quick"], utility.EFFORT["quick"] = budget, effort


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with mine.npz: people (z: their group) doing one of two things (y), eight readings of each person."""
    folder = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(0)
    subject = np.repeat(np.arange(SUBJECTS), EACH)
    y, z = np.arange(SUBJECTS * EACH) % 2, subject % 2
    x = rng.normal(size=(len(y), 6)).astype(np.float32)
    x[:, 0] += 4 * y
    x[:, 1] += 4 * z
    np.savez(folder / "mine.npz", x=x, y=np.array(["sit", "walk"])[y], z=z, subject=subject)
    return folder


@pytest.mark.slow
def test_from_a_file_to_a_privacy_card_with_no_code_written(work, trial, capsys):
    edgeveil("recipe", "new", "--data", f"npz:{work / 'mine.npz'}", "--out", work / "mine.toml")
    text = (work / "mine.toml").read_text()
    (work / "mine.toml").write_text(text.replace("target_accuracy = ", "attack_points = 100\ntarget_accuracy = 0.5 #"))
    edgeveil("train", work / "mine.toml", "--out", work / "run", "--budget", "quick")
    edgeveil("export", work / "run", "--for", "workstation", "--out", work / "export")
    edgeveil("audit", work / "export", "--artefact", "onnx-float32")
    edgeveil("keygen", work / "keys", "--development")
    edgeveil("seal", work / "export", "--key", work / "keys" / "signing.key", "--out", work / "mine.veil")
    capsys.readouterr()
    edgeveil("bundle", "inspect", work / "mine.veil", "--trust", work / "keys", "--json")
    shown = json.loads(capsys.readouterr().out)
    schema("audit.schema.json").validate(shown["audit"])
    schema("privacy.schema.json").validate(shown["card"])
    card = shown["card"]
    assert card["data"]["clusters"] == {"kind": "subject", "test": SUBJECTS // 3}
    assert card["guarantees"] == []  # a generator has no certificate
    assert "No certificate" in card["artefacts"][0]["certificate"]["sentence"]
    assert card["artefacts"][0]["collateral"]["perturbed"]["train_on_it"]["y"]["accuracy"] > 0.3
    edgeveil("bundle", "inspect", work / "mine.veil", "--trust", work / "keys")
    text = capsys.readouterr().out
    assert "best attack found" in text
    assert "the maker's own statement" in text
    edgeveil("report", work / "run", "--export", work / "export", "--out", work / "report.html")
    assert "What else it is good for" in (work / "report.html").read_text()


@pytest.mark.slow
def test_a_limit_that_is_exceeded_ends_with_three_and_says_by_how_much(work, trial, monkeypatch, capsys):
    if not (work / "export").is_dir():
        pytest.skip("there is no export to audit: the test before this one failed")
    recipe = work / "run" / "recipe.toml"
    asked = Recipe.find(recipe)
    limits = asked.limits.model_copy(update={"attack_points": 0.0, "bits": 1e-9})
    recipe.write_text(asked.model_copy(update={"limits": limits}).toml())
    found = {"accuracy": 0.9, "low": 0.8, "high": 1.0}
    document = json.loads((work / "export" / "audit.json").read_text())
    document["worst_adaptive"].update(found)
    from trainer.audit.limits import check

    held = check(limits, document)
    assert held["exceeded"][0]["by"] == pytest.approx(90 - 100 * max(document["chance"].values()), abs=1e-3)
    monkeypatch.setattr("trainer.audit.audit", lambda *_, **__: {**document, "limits": held})
    with pytest.raises(LimitNotMet, match=r"points over chance: the recipe allows 0 .* exceeded by") as caught:
        edgeveil("audit", work / "export", "--artefact", "onnx-float32")
    assert caught.value.exit_code == 3
    assert "LIMIT NOT MET" in capsys.readouterr().out
