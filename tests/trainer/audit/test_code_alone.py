"""A bundle that sends class and code alone, audited whole: what a receiver draws from its table changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.audit.document import save
from edgeveil.trainer.audit.findings import Finding, findings
from edgeveil.trainer.audit.text import as_text
from edgeveil.trainer.export.export import export
from edgeveil.trainer.perturbers.codebook.synthesis import receiver_pool
from edgeveil.trainer.report.frontier import write_report
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.sealing.seal import keygen, seal
from scripts.audit_rows import fields
from tests.support import once
from tests.support.checkout import ROOT
from tests.support.trial import short_audit

SCHEMA = json.loads((ROOT / "docs/reference/schemas" / "audit.schema.json").read_text())
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``run``, and ``frame``: its export that draws donors on the device, which the demo audited."""
    folder = tmp_path_factory.mktemp("codes")
    for name, copy in (("run", "run"), ("export", "frame")):
        once.copied(once.demo()[0] / name, folder / copy)
    return folder


@pytest.fixture(scope="module")
def document(work: Path) -> dict:
    """The audit, with few families, of one that sends codes, drawn by the receiver from a pool of more samples."""
    pool = receiver_pool(Run.open(work / "run"), 8)
    export(work / "run", ["coral-dev-board"], work / "pool", emit="code", pool=pool)
    with pytest.MonkeyPatch.context() as patch:
        short_audit.shorten(patch, families=short_audit.FEW)
        return json.loads(json.dumps(audit(work / "pool", artefact="tflite-int8"), allow_nan=False))


def counted(document: dict) -> list[dict]:
    rows = [row for row in fields(document)["adversaries"] if row["name"] == CodeCounts.name]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def certified(document: dict) -> list[Finding]:
    return [one for one in findings(document) if one.kind == "certificate"]


@pytest.mark.nightly  # by day counts: attacks/test_code_counts.py; certificates: test_sections.py
def test_codes_are_counted_and_certified_the_same_whatever_shows_them(work, document):
    frames = json.loads((work / "frame/audit.json").read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert {row["learned_on"] for row in counted(document)} == {"old", "fresh", "both", "crossed"}
    assert counted(document) == counted(frames)
    mine, theirs = fields(document), fields(frames)
    assert mine["counting"] == theirs["counting"]
    assert mine["counting"]["p"] <= 1
    assert certified(document) == certified(frames)
    assert mine["what_else"]["labels"][1]["name"] == "digit"
    assert "no attack" not in document["verdict"]["reasons"]
    assert as_text(document)


@pytest.mark.nightly  # by day that of pictures: sealing/test_seal.py
def test_the_audit_of_codes_can_be_sealed_and_shown(work, document):
    save(document, work / "pool")
    keygen(work / "keys", development=True)
    bundle = seal(work / "pool", work / "keys" / "signing.key", work / "pool.veil")
    page = write_report(work / "run", work / "pool", bundle, work / "report.html", pictures=True).read_text()
    assert (certified(document)[0].text or certified(document)[0].not_run)[:40] in page
