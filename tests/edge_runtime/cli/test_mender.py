"""The update module for Mender that the page has: by its protocol, and by Debian's mender-client where it is there."""

import os
import re
import shutil
import subprocess

import pytest

from tests.support import programs
from tests.support.checkout import ROOT

pytestmark = pytest.mark.programs

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


@pytest.fixture
def tree(tmp_path):
    """Mender's file tree of an update."""
    for name in ("files", "tmp"):
        (tmp_path / "tree" / name).mkdir(parents=True)
    return tmp_path / "tree"


@pytest.fixture
def module(board, tmp_path):
    """The page's script, for this board and its runtime; what it asks of systemctl is in ``tmp_path / "asked"``."""
    page = (ROOT / "docs/how-to/update-and-roll-back.md").read_text()
    script = re.search(r"```bash\n(#!/bin/sh\n.*?)```", page, re.DOTALL)[1]
    runtime, systemctl = board.script(tmp_path / "edge", ""), tmp_path / "systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    systemctl.chmod(0o755)
    for word, own in (
        ("python3 /opt/edgeveil/runtime/current/edgeveil-edge.pyz", runtime),
        ("/opt/edgeveil/current", board.root / "current"),
        ("systemctl ", f"{systemctl} "),
    ):
        assert word in script
        script = script.replace(word, str(own))
    path = tmp_path / "module"
    path.write_text(script)
    path.chmod(0o755)
    return path


@pytest.fixture
def step(module, tree):
    """Calls the module as Mender does; the completed process."""

    def run(state):
        return subprocess.run([module, state, tree], capture_output=True, text=True, timeout=120, check=False)

    return run


def test_it_answers_what_mender_asks(board, step):
    asked = ("SupportsRollback", "NeedsArtifactReboot", "Download", "ArtifactCommit", "Cleanup", "ArtifactFailure")
    said = []
    for state in asked:
        done = step(state)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.strip())
    assert said == ["Yes", "No", "", "", "", ""]
    assert board.runs == "first"


def test_a_release_is_installed_and_taken_back(board, step, tree, veils, tmp_path):
    shutil.copy(veils.second, tree / "files")
    assert step("ArtifactInstall").returncode == 0
    assert board.runs == "second"
    assert step("ArtifactRollback").returncode == 0
    assert board.runs == "first"
    assert step("ArtifactRollback").returncode == 0, "a second one changes nothing"
    assert board.runs == "first"
    assert (tmp_path / "asked").read_text().splitlines() == ["try-restart edgeveil"] * 2


@pytest.mark.nightly  # by day of RAUC: test_rauc.py
def test_one_that_fails_its_trial_changes_nothing_and_is_not_taken_back_further(board, step, tree, veils):
    shutil.copy(veils.second, tree / "files")
    assert step("ArtifactInstall").returncode == 0
    (tree / "files" / veils.second.name).unlink()
    shutil.copy(veils.spoilt, tree / "files")
    assert step("ArtifactInstall").returncode == 4
    assert step("ArtifactRollback").returncode == 0
    assert board.runs == "second"


@pytest.mark.parametrize("names", [[], ["a.veil", "b.veil"], ["a.img"]])
def test_an_artifact_without_one_bundle_is_one_sentence(board, step, tree, names):
    for name in names:
        (tree / "files" / name).touch()
    done = step("ArtifactInstall")
    assert done.returncode == 2
    assert "error: " in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert step("ArtifactRollback").returncode == 0
    assert board.runs == "first", "nothing was begun"


@pytest.mark.nightly  # by day its protocol, above, and RAUC's own service: test_rauc.py
@pytest.mark.boards
def test_menders_own_client_installs_commits_rolls_back_and_refuses(board, module, veils, tmp_path):
    maker = programs.need("mender-artifact", "mender")
    if os.geteuid():
        pytest.skip("MENDER'S CLIENT WAS NOT RUN: only root can make mounts of its own")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("MENDER'S CLIENT WAS NOT RUN: no mounts of its own may be made here")

    def mender(*words):
        (tmp_path / "data").mkdir(exist_ok=True)
        command = ["unshare", "--mount", "bash", "-c", OWN, "mender", str(module), str(tmp_path / "data"), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def artifact(bundle):
        out = tmp_path / f"{bundle.stem}.mender"
        words = ["write", "module-image", "-T", "edgeveil", "-t", "board", "-n", bundle.stem, "-f", str(bundle)]
        subprocess.run([maker, *words, "-o", str(out)], check=True, capture_output=True)
        return f"install {out}"

    said = mender(artifact(veils.second), "rollback")
    assert "ENDED WITH" not in said
    assert board.runs == "first", "taken back before it was committed"
    said = mender(artifact(veils.second), "commit")
    assert "ENDED WITH" not in said
    assert board.runs == "second"
    said = mender(artifact(veils.spoilt))
    assert "ENDED WITH" in said
    assert board.runs == "second", "what fails its trial is not run"
