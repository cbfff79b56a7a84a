"""edgeveil bench --on: a bundle timed on a flashed board behind a real sshd, and nothing of it left there."""

import json
import sys
from pathlib import Path

import jsonschema
import pytest

from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.cli.main import main
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support import bundles
from tests.support.boards import sshd

pytestmark = pytest.mark.programs


@pytest.fixture
def edgeveil(tmp_path, capfd, monkeypatch):
    """Runs ``edgeveil`` against a board and returns (exit code, stdout, stderr)."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "opt").mkdir()
    with sshd.running(tmp_path, home=tmp_path / "home") as server:

        def run(*arguments):
            more = ["--root", str(tmp_path / "opt"), *server.options()]
            words = [server.target if a == "BOARD" else str(a) for a in arguments]
            monkeypatch.setattr(sys, "argv", ["edgeveil", *words, *more])
            with pytest.raises(SystemExit) as ended:
                main()
            out = capfd.readouterr()
            return ended.value.code, out.out, out.err

        yield run


def test_a_bundle_is_timed_where_it_will_run(edgeveil, tmp_path, request):
    def change(_manifest, members):
        members["runtime/edgeveil-edge.pyz"] = zipapp_bytes()

    made = bundles.make_bundle(tmp_path, change=change, name="one.veil")
    (tmp_path / "test.pub").write_text(public_key_line(bundles.trusted()))
    TrustFolder.init(tmp_path / "root", [tmp_path / "test.pub"], passphrase="correct horse")  # noqa: S106
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
