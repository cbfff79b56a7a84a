"""RAUC's slot hook: by its protocol, and by Debian's own rauc, with a bundle that rauc made and a test's key signed."""

import os
import subprocess
from pathlib import Path

import pytest

from edgeveil.edge_runtime.cli.main import main
from tests.support import programs
from tests.support.vendors import rauc_bundles

pytestmark = pytest.mark.programs

# A bus, a service and mounts of its own: this machine's stay as they are.
OWN = """
set -e
mount --make-rprivate /
export DBUS_STARTER_BUS_TYPE=session
rauc -c "$1" --override-boot-slot=system0 service &
until gdbus call --session --dest de.pengutronix.rauc --object-path / --method org.freedesktop.DBus.Peer.Ping; do
    sleep 0.1
done
rauc -c "$1" install "$2" || echo "ENDED WITH $?"
kill %1
"""


def hook(board, image, monkeypatch, name="slot-install"):
    monkeypatch.setenv("RAUC_IMAGE_NAME", str(image))
    return main(["rauc", name, "--root", str(board.root)])


def test_a_release_is_installed_and_one_that_fails_its_trial_is_not(board, veils, monkeypatch):
    assert hook(board, veils.second, monkeypatch) == 0
    assert board.runs == "second"
    assert hook(board, veils.second, monkeypatch) == 0, "the same one again"
    assert hook(board, veils.spoilt, monkeypatch) == 4
    assert board.runs == "second"


@pytest.mark.parametrize(
    ("name", "image", "told"),
    [
        ("slot-install", "", "without RAUC_IMAGE_NAME"),
        ("slot-post-install", "a.veil", "slot-post-install"),
        ("slot-install", "root.img", "expected a .veil file"),
    ],
)
def test_another_hook_or_image_is_one_sentence(board, name, image, told, monkeypatch, capsys):
    capsys.readouterr()
    assert hook(board, image, monkeypatch, name) == 2
    error = capsys.readouterr().err.strip()
    assert told in error
    assert len(error.splitlines()) == 1
    assert board.runs == "first"


@pytest.mark.boards
def test_raucs_own_service_installs_and_refuses(board, veils, tmp_path):
    bus = programs.need("dbus-run-session", "gdbus", "rauc", "mksquashfs", "openssl")
    if os.geteuid():
        pytest.skip("RAUC WAS NOT RUN: only root can mount its bundles")
    if "squashfs" not in Path("/proc/filesystems").read_text() or not Path("/dev/loop-control").exists():
        pytest.skip("RAUC WAS NOT RUN: it mounts its bundles, and no squashfs or loop device may be mounted here")
    rauc_bundles.fleet_key(tmp_path)
    places = {"mounts": tmp_path / "mounts", "system": tmp_path / "system-0", "root": board.root}
    places["mounts"].mkdir()
    places["system"].touch()
    system = tmp_path / "system.conf"
    system.write_text(rauc_bundles.SYSTEM.format(folder=tmp_path, **places))
    hook_file = board.script(tmp_path / "hook", "rauc").read_text()

    def install(veil):
        made = str(rauc_bundles.rauc_bundle(tmp_path, veil, hook_file))
        inside = [bus, "--", "bash", "-c", OWN, "own", str(system), made]
        done = subprocess.run(["unshare", "--mount", *inside], capture_output=True, text=True, timeout=300, check=False)
        said = done.stdout + done.stderr
        assert "Running slot hook 'slot-install' for edgeveil.0" in said
        return said

    said = install(veils.second)
    assert "succeeded" in said
    assert "ENDED WITH" not in said
    assert board.runs == "second"
    said = install(veils.spoilt)
    assert "Failed updating slot edgeveil.0" in said
    assert "ENDED WITH" in said
    assert board.runs == "second", "what fails its trial is not run"
