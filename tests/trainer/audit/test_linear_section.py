"""The audit of cleaners: what paper 000 counts and what that hides, from what the exported artefact gave."""

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

from edgeveil.trainer.attacks import problem
from edgeveil.trainer.attacks.families.fixed import Fixed
from edgeveil.trainer.attacks.families.lda import ShrinkageLDA
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.audit.card import as_text
from edgeveil.trainer.audit.sections import linear_section
from edgeveil.trainer.export.export import export
from edgeveil.trainer.runs.run import Run
from tests.support import small_runs
from tests.support.checkout import ROOT

SCHEMA = json.loads((ROOT / "docs/reference/schemas" / "audit.schema.json").read_text())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small_runs.cleaner(tmp_path_factory.mktemp("made-up"))


def section(run: Run, sent: np.ndarray) -> dict:
    return linear_section.predictors(run.recipe.perturber, run.dataset(), sent, seed=0)


def rows(run: Run) -> np.ndarray:
    slices = run.dataset().slices
    return run.dataset().x[slices.rows()]


def test_vectors_sent_as_they_are_hide_nothing(run):
    found = section(run, rows(run))
    assert found["e_utility"]["mean"]["mean"] == 0
    assert found["refit"]["e_privacy"]["mean"] == pytest.approx(0, abs=1e-12)
    assert found["refit"]["auc_confidential_linear"] > 0.95
    assert found["refit"]["auc_confidential_boosted"] > 0.9
    assert found["refit"]["complete_privacy"] == found["uncleaned"]["complete_privacy"]


def test_vectors_of_noise_hide_all_and_are_no_use(run):
    found = section(run, np.random.default_rng(1).normal(size=rows(run).shape))
    assert found["refit"]["auc_confidential_linear"] == pytest.approx(0.5, abs=0.1)
    assert found["refit"]["auc_confidential_boosted"] == pytest.approx(0.5, abs=0.1)
    assert found["refit"]["auc_wanted_linear"] == pytest.approx(0.5, abs=0.1)
    assert found["e_utility"]["largest_error"] > 1


def test_the_cleaner_keeps_its_promise_and_leace_stops_linear_adversaries_alone(run):
    found = section(run, run.perturber().perturb(rows(run))["frame"])
    assert found["e_utility"]["largest_error"] < 1e-5
    assert found["e_utility"]["mean"]["mean"] <= found["eps"] * 1.001
    assert found["refit"]["auc_wanted_linear"] > 0.95
    assert found["refit"]["auc_confidential_linear"] < 0.65 < found["uncleaned"]["auc_confidential_linear"]
    assert found["leace"]["auc_confidential_linear"] < 0.65
    assert found["refit"]["e_privacy"]["mean"] > 1
    assert found["no_attack"]["complete_privacy"]["mean"] > found["uncleaned"]["complete_privacy"]["mean"] + 0.2
    for name in ("uncleaned", "no_attack", "refit", "leace"):
        for key in ("e_privacy", "complete_privacy"):
            value = found[name][key]
            assert value["low"] <= value["mean"] <= value["high"]


@pytest.mark.parametrize("emit", ["frame", "code"])
def test_the_document_of_an_exported_cleaner(run, tmp_path, monkeypatch, emit):
    quick = replace(problem.BUDGETS["quick"], epochs=2, trees=5)
    monkeypatch.setitem(problem.BUDGETS, "quick", quick)
    # This is about the section and the way to it, not about attacks: networks take the time.
    monkeypatch.setattr("edgeveil.trainer.attacks.run_all.adversaries", lambda: (Fixed(), Logistic(), ShrinkageLDA()))
    export(run.folder, ["coral-dev-board"], tmp_path / "export", emit=emit)
    document = audit(tmp_path / "export", artefact="numpy-float32")
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(document, allow_nan=False)))
    assert document["backends"]["cleaner"]["backend"] == "numpy"
    # A code of int16 is decoded as its receiver does, and its error is still eps.
    assert document["predictors"]["e_utility"]["largest_error"] < (1e-5 if emit == "frame" else 1e-3)
    text = as_text(document)
    assert "linear predictors: 1 wanted outputs, 2 confidential" in text
    assert "compare with uncleaned" in text
