"""edgeveil audit --on: the test slice through the runtime on a board, compared and attacked here, kept nowhere."""

import contextlib
import json
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from edgeveil.devices import remote
from edgeveil.devices.agents import run_rows
from edgeveil.devices.flashing.connection import Connection
from edgeveil.devices.remote import RemoteRows, RemoteWorkspace, perturb_on_board
from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.edge_runtime.releases.runtimes import open_releases
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.audit.findings import about_label_only, best
from edgeveil.trainer.audit.sections import board_section
from edgeveil.trainer.audit.subject import Perturbed, Subject, bottleneck, further_outputs
from edgeveil.trainer.cli.tree import modern
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support import bundles, output
from tests.support.boards import lossy_serial_line, owners, sshd

pytestmark = pytest.mark.programs

MEMORY = Path("/dev/shm")  # noqa: S108 - only looked at


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sshd")
    with sshd.running(folder) as running:
        yield running, folder / "home"


def flashed(folder, data, keys):
    """A board's root folder with the release in it: what a flash leaves, without its trial."""
    root = folder / "opt"
    runtime = root / "runtime/here"
    runtime.mkdir(parents=True)
    (runtime / "edgeveil-edge.pyz").write_bytes(zipapp_bytes())
    (root / "runtime/current").symlink_to("here")
    TrustFolder.init(root / "trust", keys, passphrase="correct horse")  # noqa: S106
    open_releases(str(root)).install(data, lambda *_: None)
    return root


def left(home):
    """Whatever of an audit lies on the board."""
    return [*MEMORY.glob("edgeveil-audit-*"), *(home / ".cache").glob("edgeveil*")]


def perturbed(board, made, x, kept):
    """The rows that the board makes of ``x``, and the noise that it draws."""
    further, data = board_section.draws(made.manifest), made.path.read_bytes()
    quiet = contextlib.nullcontext(lambda **_: None)
    return perturb_on_board(board, data, x, artefact="auto", further=further, kept=kept, progress=lambda _pieces: quiet)


@pytest.fixture
def laplace(tmp_path):
    """A bundle with noise of its own and the real runtime in it, a board that runs it, and readings."""
    made = owners.bundle(tmp_path, example=bundles.laplace_example())
    (tmp_path / "test.pub").write_text(public_key_line(bundles.trusted()))
    root = flashed(tmp_path, made.path.read_bytes(), [tmp_path / "test.pub"])
    x = np.random.default_rng(0).integers(0, 17, (100, 4)).astype(np.uint8)
    return made, root, x


def test_rows_go_there_come_back_go_on_after_a_failure_and_are_gone(server, laplace, tmp_path, monkeypatch):
    running, home = server
    made, root, x = laplace
    said, put = [], []
    monkeypatch.setattr(remote, "PIECE_ROWS", 40)
    usual = RemoteWorkspace.put

    def broken(self, data):
        put.append(len(data))
        if len(put) == 2:
            raise DeviceFailed("the line broke")
        path = usual(self, data)
        assert left(home), "nothing was there while it was needed"
        return path

    monkeypatch.setattr(RemoteWorkspace, "put", broken)

    def ask():
        connection = Connection(str(root), running.identity, running.known_hosts)
        with connection.open(running.target, say=said.append) as board:
            return perturbed(board, made, x, tmp_path / "kept")

    with pytest.raises(DeviceFailed, match="the line broke"):
        ask()
    assert left(home) == []
    back = ask()
    assert len(put) == 4, "a piece that had come back went there again, or the bundle that is installed there"
    assert "100 raw samples" in said[0]
    assert "60 raw samples" in said[1]
    assert "removed there at the end" in said[1]
    assert left(home) == []

    noise = back.outputs["draw noise"]
    assert noise.shape == x.shape
    assert len(np.unique(noise)) > 10, "no noise was drawn there"
    pipeline = load_pipeline(parse(made.manifest), made.members, "numpy")
    np.testing.assert_array_equal(back.outputs["frame"], pipeline.run(x, {"noise": noise})["frame"])
    assert (back.artefact, back.ran["manifest_sha256"]) == ("numpy", (root / "current").resolve().name)


def test_a_site_is_taken_by_the_old_spelling_too():
    found, _, variables = modern(["audit", "a.veil", "--on", "hall", "--boards", "hall.toml"])
    assert (found, variables) == (["audit", "board", "a.veil", "--on", "hall"], {"EDGEVEIL_BOARDS": "hall.toml"})


@pytest.mark.nightly  # by day over ssh, above, and commands and files over a console: test_serial.py
def test_rows_go_over_a_console_too(laplace, tmp_path):
    made, root, x = laplace
    with lossy_serial_line.board(tmp_path) as up, Connection(str(root)).open(f"serial://{up.port}") as board:
        back = perturbed(board, made, x, tmp_path / "kept")
    pipeline = load_pipeline(parse(made.manifest), made.members, "numpy")
    expected = pipeline.run(x, {"noise": back.outputs["draw noise"]})["frame"]
    np.testing.assert_array_equal(back.outputs["frame"], expected)
    assert left(tmp_path) == []


def test_a_line_that_is_lost_for_good_is_said_with_what_lies_there(server, laplace, tmp_path, monkeypatch):
    running, home = server
    made, root, x = laplace
    said = []
    connection = Connection(str(root), running.identity, running.known_hosts)

    def lost(self, _data, _progress=None):
        self.board.transport._clients[-1].get_transport().sock.close()
        raise DeviceFailed("the line broke")

    monkeypatch.setattr(RemoteWorkspace, "put", lost)
    with connection.open(running.target, say=said.append) as board, pytest.raises(DeviceFailed, match="the line broke"):
        perturbed(board, made, x, tmp_path / "kept")
    (there,) = left(home)
    assert f"or remove {there} there" in said[-1]
    there.rmdir()


def test_a_board_without_edgeveil_is_sent_nothing(server, laplace, tmp_path):
    running, home = server
    made, _, x = laplace
    empty = Connection(str(tmp_path / "empty"), running.identity, running.known_hosts)
    with empty.open(running.target) as board, pytest.raises(BadInput, match="flash it first"):
        perturbed(board, made, x, tmp_path / "kept")
    assert left(home) == []


def compared(example, outputs, x, *, target=None):
    """The ``on_board`` section of what a board made of ``x``, on a data set that is ``x`` alone."""
    manifest, members = example
    subject = Subject(manifest, members, "numpy")
    funnel = bottleneck(manifest, subject.tables())
    table = None if isinstance(funnel, str) or funnel.table is None else subject.tables()[funnel.table]
    ran = {"edge_runtime": "1", "numpy": "2"}
    board = {"board": "A Board", "architecture": "aarch64", "system": "Debian", "python": "3.11.2"}
    there = board_section.OnBoard(RemoteRows("numpy", outputs, ran, board), "ab" * 32)

    class Data:
        unit = staticmethod(lambda frames: frames)

        @staticmethod
        def part(_name):
            return type("Part", (), {"x": x, "cluster": None, "__len__": lambda _self: len(x)})()

    perturbed = Perturbed(None, {}, funnel, table, {})
    return board_section.section(there, subject, Data, perturbed, target)


def test_codes_that_flipped_before_a_channel_are_counted_with_an_interval():
    manifest, members = bundles.channel_example()
    x = np.random.default_rng(0).integers(0, 17, (400, 4)).astype(np.uint8)
    subject = Subject(manifest, members, "numpy")
    entries = [*further_outputs(subject), *board_section.draws(manifest)]
    out = load_pipeline(parse({**manifest, "outputs": [*manifest["outputs"], *entries]}), members, "numpy").run(x)
    assert (out["sent"] != out["code"]).any(), "a channel that never draws another code"
    (row,) = compared((manifest, members), out, x)["compared"]
    assert (row["what"], row["differ"], row["share"], row["low"]) == ("code before the channel", 0, 0.0, 0.0)
    assert 0 < row["high"] < 0.02
    flipped = out["sent"].copy()
    flipped[[3, 50, 399]] = (flipped[[3, 50, 399]] + 1) % 4
    (row,) = compared((manifest, members), {**out, "sent": flipped}, x)["compared"]
    assert (row["differ"], row["share"]) == (3, 0.0075)
    assert row["low"] < 0.0075 < row["high"]


def test_frames_are_compared_under_the_noise_that_the_board_drew():
    manifest, members = bundles.laplace_example()
    x = np.random.default_rng(0).integers(0, 17, (200, 4)).astype(np.uint8)
    entries = board_section.draws(manifest)
    out = load_pipeline(parse({**manifest, "outputs": [*manifest["outputs"], *entries]}), members, "numpy").run(x)

    def target(frames, training):
        return frames.reshape(len(frames), -1)

    rows = compared((manifest, members), out, x, target=target)["compared"]
    assert [(row["what"], row["differ"]) for row in rows] == [("frame", 0), ("y read from it", 0)]
    other = out["frame"].copy()
    other[7] = [0, 0, 0, 16] if out["frame"][7].argmax() != 3 else [16, 0, 0, 0]
    frame, y = compared((manifest, members), {**out, "frame": other}, x, target=target)["compared"]
    assert (frame["differ"], y["differ"]) == (1, 1)
    assert frame["max_abs"] == np.abs(other[7].astype(int) - out["frame"][7]).max()


@pytest.mark.nightly  # by day with rows that were made here: test_audit_on_device.py
@pytest.mark.slow
def test_the_card_gets_a_column_of_the_board(server, tmp_path, capfd, monkeypatch, request):
    from edgeveil.trainer.audit.audit import audit
    from edgeveil.trainer.audit.document import add_column, save
    from edgeveil.trainer.export.export import export
    from edgeveil.trainer.sealing.seal import keygen, seal
    from tests.support.export_runs import label_only_run
    from tests.support.trial import short_audit

    running, home = server
    short_audit.shorten(monkeypatch, families=short_audit.FEW)
    run, folder, bundle = tmp_path / "run", tmp_path / "export", tmp_path / "one.veil"
    label_only_run(run)
    export(run, ["workstation"], folder)
    keygen(tmp_path / "keys")
    seal(folder, tmp_path / "keys/signing.key", bundle, allow_unaudited=True)
    root = flashed(tmp_path, bundle.read_bytes(), [tmp_path / "keys/signing.pub"])
    words = ["audit", bundle, "--on", running.target, "--into", folder, "--trust", tmp_path / "keys"]

    edgeveil = partial(output.in_process(monkeypatch, capfd), *words, *running.options(root=root))
    code, _, said = edgeveil()
    assert (code, "not audited here yet" in said) == (2, True), said
    here = audit(folder, artefact="tflite-int8")
    save(here, folder)
    code, out, said = edgeveil("--json")
    assert code == 0, said
    assert "raw samples of the test slice" in said
    assert left(home) == []
    document = json.loads(out)
    schemas = request.config.rootpath / "docs/reference/schemas"
    jsonschema.validate(document, json.loads((schemas / "audit.schema.json").read_text()))
    there = document["on_board"]
    assert there["rows"] == here["data"]["rows"]["test"]
    assert [row["what"] for row in there["compared"]] == ["frame", "y read from it", "label"]
    # The same machine, the same interpreter: nothing may flip, and the same attack finds the same.
    assert [row["differ"] for row in there["compared"]] == [0, 0, 0]
    assert best(document).figures["right"].value == best(here).figures["right"].value
    assert about_label_only(document) == about_label_only(here)

    add_column(document, folder)
    kept = json.loads((folder / "audit.json").read_text())
    assert kept["created"] == here["created"]
    assert len(kept["others"]) == 1, "the older column of this board should have gone"
    save(here, folder)
    assert len(json.loads((folder / "audit.json").read_text())["others"]) == 1, "an audit here took the column away"
    seal(folder, tmp_path / "keys/signing.key", tmp_path / "two.veil")
    from edgeveil.edge_runtime.bundle.reader import read_bundle
    from edgeveil.edge_runtime.bundle.trust_store import open_trust

    members = read_bundle(str(tmp_path / "two.veil"), open_trust(str(tmp_path / "keys"))).members
    card = json.loads(members["privacy/privacy.json"])
    assert [("on_board" in part) for part in card["artefacts"]] == [False, True]
    assert "labels flipped: 0.00 %" in members["privacy/card.html"].decode()


def test_a_runtime_of_before_0_2_is_named_by_the_script_that_is_sent(tmp_path):
    """It has its package under another name, and would answer with an import that failed."""
    (tmp_path / "current").mkdir()
    run = [sys.executable, "-I", "-S", run_rows.__file__, str(tmp_path), "a.veil", "auto", "cpu"]
    none = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path)
    with zipfile.ZipFile(tmp_path / "current/edgeveil-edge.pyz", "w") as old:
        old.writestr("edge_runtime/__init__.py", "")
    before = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path)
    assert (none.returncode, before.returncode) == (2, 2)
    assert "flash the board first" in none.stderr
    assert before.stderr.count("\n") == 1
    assert "from before 0.2: flash a bundle sealed by 0.2 or later first" in before.stderr
