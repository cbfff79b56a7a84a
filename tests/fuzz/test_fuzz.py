"""The fuzz target on a small budget, and the record of the large one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgeveil.edge_runtime.errors import BundleRefused
from tests.fuzz.mutations import GOOD, GOOD_BYTES, candidates, spoiled_bytes
from tests.fuzz.target import ROOT, SUBJECT, outcome
from tests.support import bundles

RUN = Path(__file__).with_name("run.py")
FILES = {name.rpartition("/")[2] + ".py" for name in SUBJECT}


@given(candidates())
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_bytes_are_refused_or_one_exact_sound_bundle(data):
    outcome(data)


@given(st.integers(0, len(GOOD) - 1).flatmap(lambda n: st.tuples(st.just(n), spoiled_bytes(GOOD_BYTES[n]))))
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_spoiled_bytes_are_never_accepted(pair):
    index, data = pair
    assert (outcome(data) == "accepted") == (data == GOOD_BYTES[index])


@pytest.mark.parametrize("number", range(len(GOOD)))
def test_good_bundles_are_accepted(number):
    assert outcome(GOOD_BYTES[number]) == "accepted"


def test_the_target_can_fail(monkeypatch):
    """With the check of what leaves taken out, the target notices by itself that the raw reading leaves."""
    from edgeveil.edge_runtime.manifest import dataflow

    manifest, members = bundles.artefact_example()
    # Not audited: else the audit's hash of the stages would refuse it before.
    manifest["privacy"] = {"file": None, "card": None, "page": None, "speaks_of": {}, "pipeline": {}}
    members = {name: content for name, content in members.items() if not name.startswith("privacy/")}
    manifest = bundles.with_members(manifest, members)
    manifest["stages"][3]["input"] = "u"
    data = bundles.sealed(manifest, members)
    assert outcome(data) == "raw-passthrough"
    monkeypatch.setattr(dataflow.Dataflow, "take", lambda self, name, at, kinds: self._values[name])
    with pytest.raises(AssertionError, match="raw reading leaves"):
        outcome(data)


def test_an_error_of_another_kind_is_a_finding(monkeypatch):
    import edgeveil.edge_runtime.bundle.reader

    monkeypatch.setattr(edgeveil.edge_runtime.bundle.reader, "check_manifest", lambda manifest: manifest["nothing"])
    with pytest.raises(KeyError):
        outcome(GOOD_BYTES[0])
    monkeypatch.setattr(edgeveil.edge_runtime.bundle.reader, "check_manifest", lambda manifest: _refuse("two\nlines"))
    with pytest.raises(AssertionError, match="short, printable"):
        outcome(GOOD_BYTES[0])


def _refuse(message: str) -> None:
    raise BundleRefused("reason", message)


@pytest.mark.nightly
def test_the_guided_run_works(tmp_path):
    record = tmp_path / "fuzz.json"
    command = [sys.executable, str(RUN), "--seconds", "2", "--seed", "7", "--out", str(record)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    _check_record(json.loads(record.read_text()), FILES, least=50)


def test_the_recorded_run_reached_nearly_every_line():
    record = json.loads((ROOT / "docs" / "results" / "fuzz.json").read_text())
    # Recorded before the modules were merged.
    _check_record(record, FILES - {"capture.py"} | {"names.py"}, least=10_000)
    for file, facts in record["coverage"].items():
        assert facts["lines_percent"] >= 85, file
    assert record["total"]["lines_percent"] >= 95


def _check_record(record, files, *, least: int) -> None:
    assert record["inputs"] >= least
    assert record["findings"] == 0
    assert record["inputs"] == record["accepted"] + sum(record["refused"].values())
    assert {path.rpartition("/")[2] for path in record["coverage"]} == files
    assert {"python", "hypothesis", "coverage", "cryptography"} <= set(record["versions"])
