"""The audit of cleaners: what paper 000 counts and what that hides, from what the exported artefact gave."""

import json

import jsonschema
import numpy as np
import pytest

from edgeveil.trainer.attacks.families.fixed import Fixed
from edgeveil.trainer.attacks.families.lda import ShrinkageLDA
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.audit.findings import findings
from edgeveil.trainer.audit.sections import linear_section
from edgeveil.trainer.audit.text import as_text
from edgeveil.trainer.export.export import export
from edgeveil.trainer.runs.run import Run
from tests.support import small_runs
from tests.support.checkout import ROOT
from tests.support.trial import short_audit

SCHEMA = json.loads((ROOT / "docs/reference/schemas" / "audit.schema.json").read_text())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small_runs.cleaner(tmp_path_factory.mktemp("made-up"))


def section(run: Run, sent: np.ndarray) -> dict:
    """Findings by whose output, name without what it measures, and figure; of the wanted outputs by "wanted"."""
    found = linear_section.predictors(run.recipe.perturber, run.dataset(), sent, seed=0)
    by = {}
    for one in found:
        name = one.name.removeprefix(f"{linear_section.PRIVACY}, ").removeprefix(f"{linear_section.COMPLETE}, ")
        by[(("wanted ",) if one.question == linear_section.WANTED else ("",))[0] + name, one.of, one.figure] = one
    return by


ERROR = f"wanted {linear_section.ERROR}", "sent", "number"
REFIT, BOOSTED, LEACE, KNOWN = "refit", "refit, boosted", linear_section.LEACE, linear_section.KNOWN


def rows(run: Run) -> np.ndarray:
    slices = run.dataset().slices
    return run.dataset().x[slices.rows()]


def test_vectors_sent_as_they_are_hide_nothing(run):
    found = section(run, rows(run))
    assert found[ERROR].value == 0
    assert found[REFIT, "sent", "number"].value == pytest.approx(0, abs=1e-12)
    assert found[REFIT, "sent", "auc"].value > 0.95
    assert found[BOOSTED, "sent", "auc"].value > 0.9
    assert found[REFIT, "sent", "share"].value == found[KNOWN, "raw", "share"].value
    assert found[REFIT, "sent", "share"].null == found[KNOWN, "raw", "share"].value


def test_vectors_of_noise_hide_all_and_are_no_use(run):
    found = section(run, np.random.default_rng(1).normal(size=rows(run).shape))
    for name in (REFIT, BOOSTED, "wanted refit"):
        assert found[name, "sent", "auc"].value == pytest.approx(0.5, abs=0.1)
    assert found[ERROR].more["largest_error"] > 1


def test_the_cleaner_keeps_its_promise_and_leace_stops_linear_adversaries_alone(run):
    found = section(run, run.perturber().perturb(rows(run))["frame"])
    assert found[ERROR].more["largest_error"] < 1e-5
    assert found[ERROR].value <= found[ERROR].more["eps"] * 1.001
    assert found["wanted refit", "sent", "auc"].value > 0.95
    assert found[REFIT, "sent", "auc"].value < 0.65 < found[REFIT, "raw", "auc"].value
    assert found[LEACE, "sent", "auc"].value < 0.65
    assert found[REFIT, "sent", "number"].value > 1
    assert found[KNOWN, "sent", "share"].value > found[KNOWN, "raw", "share"].value + 0.2
    spread = [one for (_, _, figure), one in found.items() if figure in ("number", "share")]
    assert len(spread) == 9
    for one in spread:
        assert one.interval[0] <= one.value <= one.interval[1]


@pytest.mark.parametrize("emit", [pytest.param("frame", marks=pytest.mark.nightly), "code"])
def test_the_document_of_an_exported_cleaner(run, tmp_path, monkeypatch, emit):
    # This is about the section and the way to it, not about attacks: networks take the time.
    short_audit.shorten(monkeypatch, families=(Fixed(), Logistic(), ShrinkageLDA()))
    export(run.folder, ["coral-dev-board"], tmp_path / "export", emit=emit)
    document = audit(tmp_path / "export", artefact="numpy-float32")
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(document, allow_nan=False)))
    assert document["backends"]["cleaner"]["backend"] == "numpy"
    # A code of int16 is decoded as its receiver does, and its error is still eps.
    (error,) = [one for one in findings(document) if one.name == linear_section.ERROR]
    assert error.more["largest_error"] < (1e-5 if emit == "frame" else 1e-3)
    text = as_text(document)
    assert linear_section.HIDDEN in text
    assert "uncleaned vectors have it too" in text
