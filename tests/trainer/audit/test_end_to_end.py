"""From a trained run to audit.json and report.html, through the exported file, on digits with a trial's budget."""

import hashlib
import json
import re
import shutil
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.trainer.attacks.families.fixed import Fixed
from edgeveil.trainer.attacks.families.lda import ShrinkageLDA
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.attacks.families.signal_boosting import SignalBoosting
from edgeveil.trainer.attacks.families.transfer import Transfer
from edgeveil.trainer.attacks.findings import Journal
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.audit.document import save
from edgeveil.trainer.audit.findings import LABEL_ONLY, RAW, attacks, best, findings, guess, kept
from edgeveil.trainer.audit.text import as_text
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.report.frontier import write_report
from edgeveil.trainer.results import own_folder
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.sealing.seal import keygen, seal
from scripts.audit_rows import fields
from tests.support import once
from tests.support.checkout import ROOT
from tests.support.trial import short_audit

SCHEMA = json.loads((ROOT / "docs/reference/schemas" / "audit.schema.json").read_text())
FEW = (*short_audit.FEW, ShrinkageLDA(), Transfer(), SignalBoosting())
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``run`` and ``export``, which was not audited."""
    folder, demo = tmp_path_factory.mktemp("digits"), once.demo()[0]
    once.copied(demo / "prgan", folder / "run")
    shutil.copytree(demo / "prgan-export", folder / "export", ignore=shutil.ignore_patterns("audit.json"))
    report = folder / "export" / "export.json"
    report.write_text(json.dumps({**json.loads(report.read_text()), "run": "../run"}))
    return folder


@pytest.fixture(scope="module")
def trial():
    """Short audits, by few families: this is about the way, not the numbers. Label-only is measured as in the demo."""
    with pytest.MonkeyPatch.context() as patch:
        short_audit.shorten(patch, families=short_audit.FEW)
        for module in ("audit.audit", "attacks.run_all"):
            patch.setattr(f"edgeveil.trainer.{module}.adversaries", lambda: FEW)
        yield


@pytest.fixture(scope="module")
def document(work: Path, trial: None) -> dict:
    return audit(work / "export", artefact="tflite-int8")


def test_real_output_is_of_the_schema(document):
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(document, allow_nan=False)))


def test_it_speaks_of_the_exported_bytes_on_the_edge_backend(work, document):
    data = (work / "export" / "artefacts" / "generator.tflite-int8.tflite").read_bytes()
    assert document["speaks_of"] == {"tflite-int8": {"generator": hashlib.sha256(data).hexdigest()}}
    assert document["backends"]["generator"]["backend"] == "ai-edge-litert"


def test_label_only_is_at_chance_and_keeps_what_d_y_reads(document):
    # Where D_y is wrong depends a little on z.
    assert best(document, LABEL_ONLY).figures["right"].interval[0] <= guess(document, LABEL_ONLY) + 0.05
    floor, raw = kept(document, LABEL_ONLY), kept(document, RAW)
    assert (floor.value, floor.interval) == (raw.value, raw.interval)  # its label is D_y's own


@pytest.mark.nightly  # by day of one question: attacks/test_journal.py
def test_an_audit_that_was_broken_off_goes_on_and_ends_the_same(work, document, monkeypatch, capsys):
    answers, kept = Journal.answers, 4

    def interrupted(journal, *about):
        if len(journal) == kept and journal.folder.name.startswith("attacks-"):
            raise KeyboardInterrupt
        return answers(journal, *about)

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "answers", interrupted)
        with pytest.raises(KeyboardInterrupt):
            audit(work / "export", artefact="tflite-int8")
    assert f"Answers of {kept} attacks are kept in" in capsys.readouterr().err
    resumed = audit(work / "export", artefact="tflite-int8")
    assert f"has answers of {kept} attacks" in capsys.readouterr().err
    assert _without_times(resumed) == _without_times(document)
    assert not list(own_folder(work / "run").glob("attacks-*"))


def _without_times(value):
    if isinstance(value, dict):
        return {k: _without_times(v) for k, v in value.items() if k not in ("created", "wall_time_s", "seconds")}
    return [_without_times(one) for one in value] if isinstance(value, list | tuple) else value


def test_frames_alone_have_no_codes_to_count(document):
    assert document["histogram"] is None


def test_no_attack_on_series_stands_in_an_audit_of_pictures(document):
    names = {one.name for one in findings(document) if one.kind == "adaptive"}
    assert ShrinkageLDA.name in names
    assert SignalBoosting.name not in names


def test_every_kind_of_adversary_is_there(document):
    assert {row.kind for row in attacks(document)} == {"fixed", "transfer", "adaptive"}
    assert "best attack found" in as_text(document)


def test_the_digit_that_z_is_made_of_is_attacked_too(document):
    what = fields(document)["what_else"]
    z, digit = what["labels"]
    assert (z["name"], digit["name"], digit["classes"]) == ("less-than-five", "digit", 10)
    assert what["worst"]["label"] == "digit"
    assert what["worst"]["read"]
    floor = fields(document)["label_only"]["what_else"]["labels"][1]
    assert digit["bits"]["mean"] > floor["bits"]["mean"] + 0.2
    assert f"the worst: {what['worst']['question']}, AUC" in as_text(document)


def test_no_name_of_a_class_of_z_and_no_path_is_in_it(work, document):
    text = json.dumps(document)
    assert str(work) not in text
    for name in Run.open(work / "run").dataset().z_names:
        assert f'"{name}"' not in text


@pytest.mark.nightly  # by day a bundle is audited in tests/walk, and reports: tests/scripts/test_demo.py
def test_saved_sealed_and_audited_again_from_the_bundle(work, document):
    save(document, work / "export")
    keygen(work / "keys", development=True)
    bundle = seal(work / "export", work / "keys" / "signing.key", work / "digits.veil")
    again = audit(bundle, run=work / "run", trust=work / "keys", artefact="tflite-int8")
    changing = {"created", "wall_time_s", "findings", "limits", "verdict"}
    assert {k: v for k, v in again.items() if k not in changing} == {
        k: v for k, v in document.items() if k not in changing
    }
    assert best(again).figures["right"].value == best(document).figures["right"].value
    page = write_report(work / "run", work / "export", bundle, work / "report.html", pictures=True).read_text()
    assert "<dt>What is sent</dt><dd>For each sample: a frame (" in re.sub(r"<a [^>]*>|</a>", "", page)
    assert hashlib.sha256(bundle.read_bytes()).hexdigest() in page
    assert page.count("data:image/png") == 24
    assert "sealed with a development key" in page

    other = work / "other"
    keygen(other, development=True)
    with pytest.raises(BundleRefused):
        audit(bundle, run=work / "run", trust=other)
    with pytest.raises(BadInput, match="--run"):
        audit(bundle, trust=work / "keys")


def test_mistakes_are_said_in_a_sentence(work):
    with pytest.raises(BadInput, match="tflite-float32"):
        audit(work / "export", artefact="tflite-int4")
    with pytest.raises(BadInput, match="quick, thorough"):
        audit(work / "export", budget="endless")
    with pytest.raises(BadInput, match=r"was expected at .*; there is none"):
        audit(work / "nowhere")
    folder = ExportFolder.open(work / "export")
    (work / "lonely").mkdir()
    for name, data in {**folder.members, "manifest.json": (work / "export" / "manifest.json").read_bytes()}.items():
        (work / "lonely" / name).parent.mkdir(exist_ok=True)
        (work / "lonely" / name).write_bytes(data)
    (work / "lonely" / "export.json").write_text(json.dumps({**folder.report, "run": "gone"}))
    with pytest.raises(BadInput, match="--run"):
        audit(work / "lonely")
    with pytest.raises(BadInput, match="not audited"):
        write_report(work / "run", work / "lonely", None, work / "no.html")
    assert not (work / "no.html").exists()


class Seen(Exception):
    """What is known of an audit before its attacks."""


def test_an_audit_is_charged_for_those_of_other_configurations_before_it(work, document, monkeypatch):
    def stop(*_about, looks):
        raise Seen(looks)

    monkeypatch.setattr("edgeveil.trainer.audit.audit.About", stop)
    for artefact, asked, looks in (("keras", {}, 1), ("tflite-int8", {}, 0), ("keras", {"looks": 7}, 7)):
        with pytest.raises(Seen) as seen:
            audit(work / "export", artefact=artefact, **asked)
        assert seen.value.args == (looks,)


@pytest.mark.nightly  # by day in ext/sweep/test_sweep.py
def test_keras_is_for_comparison_and_close_to_int8(work, document, monkeypatch):
    monkeypatch.setattr("edgeveil.trainer.attacks.run_all.adversaries", lambda: (Fixed(), Logistic()))
    keras = audit(work / "export", artefact="keras")
    assert keras["speaks_of"] == {}
    assert np.isclose(kept(keras).value, kept(document).value, atol=0.02)
    assert best(keras).name in ("logistic regression", "ensemble")  # of the same in several settings
