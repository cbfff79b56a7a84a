"""Mender's update module: by its protocol, and by Mender's own client where Debian's mender-client is installed."""

import os
import shutil
import subprocess
import sys

import pytest

from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.releases.trial import open_releases
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support import bundles
from tests.support.checkout import ROOT

MODULE = "/usr/share/mender/modules/v3/edgeveil"
# Mounts of its own where Mender looks, and a folder for what it keeps: this machine's stay as they are.
OWN = """
set -e
mount --make-rprivate /
for place in /usr/share/mender /etc/mender; do mount -t tmpfs tmpfs "$place"; done
mkdir -p /usr/share/mender/modules/v3
cp "$1" /usr/share/mender/modules/v3/edgeveil
echo device_type=board > "$2/device_type"
echo artifact_name=none > /etc/mender/artifact_info
echo '{}' > /etc/mender/mender.conf
mender="mender --no-syslog --data $2 --fallback-config $2/none"
shift 2
for words in "$@"; do $mender $words || echo "ENDED WITH $?"; done
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The owner's trust, two good bundles and one whose golden outputs are wrong; with the real runtime."""
    folder = tmp_path_factory.mktemp("owner")
    (folder / "test.pub").write_text(public_key_line(bundles.trusted()))
    TrustFolder.init(folder / "root", [folder / "test.pub"], passphrase="correct horse")  # noqa: S106
    runtime = zipapp_bytes()

    def bundle(name, spoil=False):
        def change(manifest, members):
            manifest["name"] = name
            members["runtime/edgeveil-edge.pyz"] = runtime
            if spoil:
                golden = next(iter(manifest["golden"]["outputs"]["numpy"].values()))
                members[golden] = members[golden][:-1] + bytes([members[golden][-1] ^ 0x7F])

        return bundles.make_bundle(folder, change=change, name=f"{name}.veil").path

    return folder, bundle("first"), bundle("second"), bundle("spoilt", spoil=True)


@pytest.fixture
def board(tmp_path, made):
    """A board that runs the first release."""
    root = tmp_path / "edgeveil-hall"
    (root / "trust").mkdir(parents=True)
    for name in ("root.pub", "trust.json"):
        shutil.copy(made[0] / "root" / name, root / "trust")
    assert main(["install", str(made[1]), "--root", str(root), "--frames", "3"]) == 0
    return root


@pytest.fixture
def tree(tmp_path):
    """Mender's file tree of an update."""
    for name in ("files", "tmp"):
        (tmp_path / "tree" / name).mkdir(parents=True)
    return tmp_path / "tree"


def runs(board):
    releases = open_releases(str(board))
    return releases.read(releases.state().committed).manifest.name


def step(board, tree, state):
    return main(["mender", state, str(tree), "--root", str(board)])


def test_it_answers_what_mender_asks(board, tree, capsys):
    asked = ("SupportsRollback", "NeedsArtifactReboot", "Download", "ArtifactCommit", "Cleanup", "ArtifactFailure")
    said = []
    for state in asked:
        assert step(board, tree, state) == 0
        said.append(capsys.readouterr().out.strip())
    assert said == ["Yes", "No", "", "", "", ""]
    assert runs(board) == "first"


def test_a_release_is_installed_and_taken_back(board, tree, made):
    shutil.copy(made[2], tree / "files")
    assert step(board, tree, "ArtifactInstall") == 0
    assert runs(board) == "second"
    assert step(board, tree, "ArtifactRollback") == 0
    assert runs(board) == "first"
    assert step(board, tree, "ArtifactRollback") == 0, "a second one changes nothing"
    assert runs(board) == "first"


def test_one_that_fails_its_trial_changes_nothing_and_is_not_taken_back_further(board, tree, made, capsys):
    shutil.copy(made[2], tree / "files")
    assert step(board, tree, "ArtifactInstall") == 0
    (tree / "files" / made[2].name).unlink()
    shutil.copy(made[3], tree / "files")
    assert step(board, tree, "ArtifactInstall") == 4
    assert step(board, tree, "ArtifactRollback") == 0
    assert runs(board) == "second"


@pytest.mark.parametrize("names", [[], ["a.veil", "b.veil"], ["a.img"]])
def test_an_artifact_without_one_bundle_is_one_sentence(board, tree, names, capsys):
    for name in names:
        (tree / "files" / name).touch()
    assert step(board, tree, "ArtifactInstall") == 2
    error = capsys.readouterr().err.strip()
    assert "expected one .veil file" in error
    assert len(error.splitlines()) == 1
    assert step(board, tree, "ArtifactRollback") == 0, "nothing was begun"


@pytest.mark.boards
def test_menders_own_client_installs_commits_rolls_back_and_refuses(board, made, tmp_path):
    if os.geteuid() or not shutil.which("mender") or not shutil.which("mender-artifact"):
        pytest.skip("MENDER'S CLIENT WAS NOT RUN: as root, apt install mender-client mender-artifact")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("MENDER'S CLIENT WAS NOT RUN: no mounts of its own may be made here")
    module = tmp_path / "module"
    runtime = f"PYTHONPATH={ROOT / '.venv/src'} {sys.executable} -m edgeveil.edge_runtime"
    module.write_text(f'#!/bin/sh\nexec env {runtime} mender "$@" --root {board}\n')
    module.chmod(0o755)

    def mender(*words):
        (tmp_path / "data").mkdir(exist_ok=True)
        command = ["unshare", "--mount", "bash", "-c", OWN, "mender", str(module), str(tmp_path / "data"), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def artifact(bundle):
        out = tmp_path / f"{bundle.stem}.mender"
        words = ["write", "module-image", "-T", "edgeveil", "-t", "board", "-n", bundle.stem, "-f", str(bundle)]
        subprocess.run(["mender-artifact", *words, "-o", str(out)], check=True, capture_output=True)
        return f"install {out}"

    said = mender(artifact(made[2]), "rollback")
    assert "ENDED WITH" not in said
    assert runs(board) == "first", "taken back before it was committed"
    said = mender(artifact(made[2]), "commit")
    assert "ENDED WITH" not in said
    assert runs(board) == "second"
    said = mender(artifact(made[3]))
    assert "ENDED WITH" in said
    assert runs(board) == "second", "what fails its trial is not run"
