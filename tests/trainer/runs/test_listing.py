"""``edgeveil runs`` lists, compares and shows what was trained, with the figures of its audits."""

import json

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.runs import listing

RECIPE = """name = "{name}"
[perturber]
kind = "{kind}"
{more}
[budget]
epochs = {epochs}
"""


def write_run(folder, *, kind="codebook", epochs=5, more="", state="finished", name="mine"):
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(RECIPE.format(name=name, kind=kind, epochs=epochs, more=more))
    facts = {"recipe": name, "budget": "full", "state": state, "created": "2026-01-01T00:00:00+00:00"}
    facts["wall_time_s"] = {"perturber": 90.0, "classifier_target": 30.0}
    if state == "finished":
        facts["validation"] = {"target_accuracy": 0.953}
    (folder / "run.json").write_text(json.dumps(facts))


def write_audit(folder, run, accuracy):
    folder.mkdir()
    (folder / "export.json").write_text(json.dumps({"run": f"../{run}"}))
    guesses = [
        {"question": "z", "name": name, "figure": "right", "value": value, "more": {"kind": "guess"}}
        for name, value in (("prior", 0.5), ("majority", 0.55))
    ]
    worst = {"question": "z", "name": "cnn", "figure": "right", "value": accuracy}
    worst["more"] = {"kind": "adaptive", "chosen": True}
    document = {"schema": 2, "artefact": "tflite-int8", "findings": [*guesses, worst]}
    (folder / "audit.json").write_text(json.dumps(document))


@pytest.fixture
def runs(tmp_path):
    write_run(tmp_path / "runs" / "one")
    write_run(tmp_path / "runs" / "deep" / "two", kind="prgan", epochs=9, more="alpha = 3.0", state="training")
    write_audit(tmp_path / "runs" / "one-export", "one", 0.61)
    write_audit(tmp_path / "runs" / "one-other", "one", 0.58)
    (tmp_path / "runs" / "junk").mkdir()
    (tmp_path / "runs" / "junk" / "audit.json").write_text("[]")
    return tmp_path / "runs"


def test_all_runs_below_a_folder_with_what_they_keep_and_the_worst_that_was_found(runs, edgeveil):
    code, out, _ = edgeveil("run", "list", runs)
    head, two, one = out.splitlines()
    assert code == 0
    assert head.startswith("run ")
    assert "61.0% (chance 55.0%)" in one
    assert "95.3%" in one
    assert "not audited" in two
    found = {row["run"]: row for row in json.loads(edgeveil("run", "list", runs, "--json")[1])["runs"]}
    assert [attack["accuracy"] for attack in found[str(runs / "one")]["audits"]] == [0.61, 0.58]
    assert found[str(runs / "deep" / "two")]["state"] == "training"
    assert found[str(runs / "one")]["minutes"] == 2.0


def test_what_differs_is_shown_and_nothing_else(runs, edgeveil):
    code, out, _ = edgeveil("run", "compare", runs / "one", runs / "deep" / "two")
    assert code == 0
    rows = {line.split("  ")[0].strip(): line for line in out.splitlines()}
    assert {"budget.epochs", "perturber.kind", "perturber.alpha"} <= set(rows)
    assert "name" not in rows
    found = json.loads(edgeveil("run", "compare", runs / "one", runs / "deep" / "two", "--json")[1])
    assert found["differences"]["perturber.alpha"] == [None, 3.0]


def test_one_run_with_its_recipe(runs, edgeveil):
    code, out, _ = edgeveil("run", "show", runs / "one")
    assert code == 0
    assert "perturber.kind" in out
    assert out.count("audit of tflite-int8") == 2


def test_what_is_no_run_is_one_sentence(runs, edgeveil, tmp_path):
    for words in (("show", runs / "junk"), ("list", tmp_path / "nowhere"), ("compare", runs / "one")):
        code, out, err = edgeveil("run", *words)
        assert (code, out, err.count("\n")) == (2, "", 1), words
    (runs / "one" / "recipe.toml").write_text("= no toml")
    with pytest.raises(BadInput, match="recipe of the run"):
        listing.summary(runs / "one")


def test_a_folder_without_runs_says_how_to_make_one(edgeveil, tmp_path):
    code, out, err = edgeveil("run", "list", tmp_path)
    assert (code, out) == (0, "")
    assert "edgeveil train RECIPE" in err
