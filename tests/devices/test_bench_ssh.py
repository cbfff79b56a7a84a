"""edgeveil bench --on: a bundle timed on a flashed board behind a real sshd, and nothing of it left there."""

import json
from pathlib import Path

import jsonschema
import pytest

from tests.support import output
from tests.support.boards import owners, sshd

pytestmark = pytest.mark.programs


@pytest.fixture
def edgeveil(tmp_path, capfd, monkeypatch):
    """Runs ``edgeveil`` against a board and returns (exit code, stdout, stderr)."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "opt").mkdir()
    with sshd.running(tmp_path) as server:
        run, more = output.in_process(monkeypatch, capfd), server.options(root=tmp_path / "opt")
        yield lambda *words: run(*(server.target if word == "BOARD" else word for word in words), *more)


@pytest.mark.nightly  # by day the bench here, and rows over ssh: test_remote_rows.py
def test_a_bundle_is_timed_where_it_will_run(edgeveil, tmp_path, request, monkeypatch):
    owners.few_interpreters(monkeypatch)
    made = owners.bundle(tmp_path)
    owners.trust(tmp_path)
    bench = ["bench", made.path, "--on", "BOARD", "--for", "workstation", "--json"]

    code, _, said = edgeveil(*bench)
    assert (code, "flash it first" in said) == (2, True), said
    code, _, said = edgeveil(
        "flash", made.path, "--on", "BOARD", "--for", "workstation", "--trust", tmp_path / "root", "--no-service"
    )
    assert code == 0, said
    code, out, said = edgeveil(*bench, "--out", tmp_path / "result.json")
    document = json.loads(out)
    # A busy machine is a verdict, not a failure.
    assert code == {"VALID": 0, "INVALID": 3}[document["verdict"]], said
    schema = json.loads((request.config.rootpath / "docs/reference/schemas/bench.schema.json").read_text())
    jsonschema.validate(document, schema)
    assert json.loads((tmp_path / "result.json").read_text()) == document
    assert document["bundle"]["name"] == made.manifest["name"]
    assert document["count"] >= 300
    assert list(Path("/dev/shm").glob("edgeveil-bench-*")) == []  # noqa: S108 - only looked at
    assert list((tmp_path / "home").glob(".cache/edgeveil-bench*")) == []
