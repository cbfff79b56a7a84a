"""Every parser of a stranger's bytes: its corpus, a few seconds of fuzzing, and the record of the long run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgeveil.edge_runtime.ipc import notes
from tests.fuzz import parsers, parsers_run
from tests.support.checkout import PACKAGES, ROOT

SECONDS = 3  # of all parsers; the recorded run is the long one
RECORD = json.loads(parsers_run.RECORD.read_text())


@pytest.mark.parametrize("name", parsers.TARGETS)
def test_the_corpus_is_taken_or_refused(name):
    taken = {parsers.attempt(name, data) for data in [b"", *parsers_run.given(name, None)]}
    assert taken


@pytest.mark.nightly  # by day the corpus, above; that a finding is one, below; and bundles: test_fuzz.py
@pytest.mark.slow
def test_a_short_run_finds_nothing():
    for name in parsers.TARGETS:
        found = parsers_run.own(name, SECONDS / len(parsers.TARGETS), 0, None)
        assert found["findings"] == {}, name
        assert found["executions"] > 20, name


ARCHIVE = """
import json, coverage
measure = coverage.Coverage(
    data_file=None, branch=True, config_file=False, source_pkgs=["edgeveil.edge_runtime.bundle.archive"]
)
measure.start()
from tests.fuzz import parsers
from tests.hostile_bundles import museum, zips
for data in [*parsers.TARGETS["archive"].seeds, *(exhibit.bundle()[0] for exhibit in museum.EXHIBITS.values())]:
    parsers.attempt("archive", data)
measure.stop()
from edgeveil.edge_runtime.bundle import archive
found = measure._analyze(archive.__file__)
print(json.dumps([sorted(found.missing), found.missing_branch_arcs()]))
"""


def test_every_line_and_every_branch_of_the_archive_reader_is_reached():
    """By bundles that are kept, so that none is added that no bad bundle shows."""
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = [{str(ROOT)!r}]\n" + ARCHIVE]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[], {}]


def test_a_parser_that_fails_is_found(monkeypatch):
    monkeypatch.setattr(notes, "_event", lambda line: json.loads(line))
    assert parsers_run.own("notes", 1, 0, None)["findings"]


def test_the_long_run_found_nothing_and_led_into_every_parser():
    assert RECORD["findings"] == 0
    assert set(RECORD["targets"]) == set(parsers.TARGETS)
    assert RECORD["executions"] > 100_000
    # The record was made before modules were merged: several of its files may be one now.
    assert len(RECORD["coverage"]) >= len({target.file for target in parsers.TARGETS.values()})
    assert RECORD["coverage"]["edge_runtime/bundle/archive.py"]["lines_missed"] == []


@pytest.mark.nightly
def test_the_guided_run_works(tmp_path):
    command = [sys.executable, parsers_run.__file__, "--engine", "own", "--seconds", "2", "--out", str(tmp_path / "r")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "r").read_text())["executions"] > 100
    assert [path.name for path in Path(tmp_path).iterdir()] == ["r"]
