"""edgeveil-edge install and its like, as the commands that a board runs."""

import contextlib
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgeveil.devices.agents import gather_facts
from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support import bundles
from tests.support.boards import owners

SECRET = "correct horse"  # noqa: S105 - opens nothing but keys made here


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    """The owner's trust folder and bundles of two versions that carry the real runtime."""
    folder = tmp_path_factory.mktemp("owner")
    (folder / "test.pub").write_text(public_key_line(bundles.trusted()))
    TrustFolder.init(folder / "root", [folder / "test.pub"], passphrase=SECRET)
    runtime = zipapp_bytes()

    def version(number, spoil=False):
        def change(manifest, members):
            manifest["security_version"] = number
            members["runtime/edgeveil-edge.pyz"] = runtime
            if spoil:
                name = next(iter(manifest["golden"]["outputs"]["numpy"].values()))
                array = bytearray(members[name])
                array[-1] ^= 0x7F
                members[name] = bytes(array)

        return bundles.make_bundle(folder, change=change, name=f"{number}{spoil}.veil").path

    return folder, version(1), version(2), version(3, spoil=True)


def given(owner, root):
    (root / "trust").mkdir(parents=True)
    for name in ("root.pub", "trust.json"):
        (root / "trust" / name).write_bytes((owner[0] / "root" / name).read_bytes())
    return root


@pytest.fixture
def board(tmp_path, owner):
    """A board after its first flash put trust there and nothing else."""
    return given(owner, tmp_path / "opt")


@pytest.fixture(scope="module")
def installed(owner, tmp_path_factory):
    """A board that runs the first release, to copy; and what that installation said."""
    root = given(owner, tmp_path_factory.mktemp("installed") / "opt")
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert run("install", owner[1], "--root", root, "--frames", "5") == 0
    return root, said.getvalue()


@pytest.fixture
def running(installed, tmp_path):
    """A board of the test's own that runs the first release."""
    return shutil.copytree(installed[0], tmp_path / "opt", symlinks=True)


def run(*arguments):
    return main([str(a) for a in arguments])


def test_install_try_status_and_rollback(installed, running, owner, capsys):
    board, (_, first, second, _) = running, owner
    assert "now runs" in installed[1]
    assert run("install", first, "--root", board) == 0
    assert "runs already" in capsys.readouterr().out
    assert run("install", second, "--root", board, "--frames", "5") == 0
    capsys.readouterr()
    assert run("status", "--root", board, "--json") == 0
    status = json.loads(capsys.readouterr().out)
    assert status["committed"] == status["current"]
    assert (status["security_version"], status["floor"]) == (2, 2)
    assert run("rollback", "--root", board) == 2
    assert "security version 1; this device takes 2" in capsys.readouterr().err


def test_a_golden_check_that_fails_on_the_board_takes_the_release_back(running, owner, capsys):
    board, spoilt = running, owner[3]
    before = (board / "current").readlink()
    assert run("install", spoilt, "--root", board) == 4
    said = capsys.readouterr().err
    assert "was taken back" in said
    assert "golden" in said
    assert (board / "current").readlink() == before
    assert run("status", "--root", board) == 0
    said = capsys.readouterr().out
    assert "failed: 1 x" in said
    assert "spent: no service counts it\n" in said


def test_a_board_that_was_never_flashed_says_so(tmp_path, capsys):
    assert run("status", "--root", tmp_path / "none") == 2
    assert "flash it first" in capsys.readouterr().err


def test_the_installed_runtime_is_the_one_that_runs(board, owner, tmp_path):
    _, first, _, _ = owner
    (tmp_path / "sent.pyz").write_bytes(zipapp_bytes())
    subprocess.run([sys.executable, tmp_path / "sent.pyz", "install", first, "--root", board], check=True)
    runtime = board / "runtime" / "current" / "edgeveil-edge.pyz"
    done = subprocess.run(
        [sys.executable, runtime, "status", "--root", board, "--json"], capture_output=True, check=True
    )
    assert json.loads(done.stdout)["committed"]


def test_facts_are_gathered_by_one_file_alone(running, tmp_path):
    board = running
    script = owners.light(Path(gather_facts.__file__).read_bytes())
    done = subprocess.run(
        [sys.executable, "-", board, str(tmp_path), "[]"], input=script, capture_output=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["python"] == "{}.{}.{}".format(*sys.version_info)
    assert found["accelerator"] is True
    assert "numpy" in found["interpreters"]
    assert found["edgeveil"]["committed"] == (board / "current").readlink().name
    assert found["edgeveil"]["floor"] == 1
    assert len(found["edgeveil"]["root_key"]) == 64


@pytest.mark.parametrize("words", [["releases"], ["releases", "--keep", "3"]])
def test_a_board_with_no_release_lists_none(board, capsys, words):
    assert run(*words, "--root", board) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert f"No release was ever installed in {board}." in err


def test_fewer_than_no_releases_cannot_be_kept(board, capsys):
    assert run("releases", "--keep", "-1", "--root", board) == 2
    assert "--keep: 0 or more releases were expected; got -1" in capsys.readouterr().err


def test_the_status_of_a_board_with_no_release_says_none(board, capsys):
    assert run("status", "--root", board) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:6] == ["committed: none", "name: none", "previous: none", "floor: 0", "reason: none", "runtime: none"]
