"""Root changes no owner and moves no name in a folder of another user: whose folder it is sets what a name leads to."""

import ast
import contextlib
import os
import re
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from edgeveil.devices import profiles
from edgeveil.devices.flashing import sd_card, service_files
from edgeveil.devices.flashing.board import Board
from edgeveil.devices.flashing.records import BundleFacts, TrustFacts, Wheels
from edgeveil.devices.flashing.steps import (
    InstallRelease,
    MakeLedger,
    Plan,
    PushBundle,
    StartService,
    StopService,
    TrustKeys,
    UnpackWheels,
    WriteService,
    execute,
    make_ledger,
)
from edgeveil.devices.profiles import Service
from edgeveil.devices.transports.base import Completed
from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.errors import EdgeVeilError
from edgeveil.edge_runtime.paths import ENGINES, LEDGER
from tests.support import programs
from tests.support.boards.owners import Recorded
from tests.support.checkout import ROOT

PI = profiles.load("raspberry-pi-cpu")
CHANGES = ("chown", "chgrp", "chmod", "install", "mv", "cp", "ln")
# Folders of the service's users: systemd makes them for its units, or a unit does, in folders that are root's.
FOREIGN = [str(Path(LEDGER).parent), ENGINES, "/run/edgeveil", "/run/edgeveil-camera"]
CAMERAS = ["camera:0", "rtsp://camera/stream"]


def plans():
    """A plan with every kind of step, for a camera here and one on a network."""
    bundle = BundleFacts("11", "hall", 1, 1, "aa", data=b"x", runtime=b"y", spends=True)
    trust = TrustFacts("aa", 1, ("aa",), files={"root.pub": b"r", "trust.json": b"t"})
    for camera in CAMERAS:
        made = service_files.files("/opt/edgeveil", camera, ["tcp://host:1"], PI, accept_raw=True)
        made |= service_files.update_files("/opt/edgeveil", "https://x", PI.service)
        steps = (
            *(TrustKeys(trust), UnpackWheels(Wheels("site-1", 1, "aarch64", "3.11", archive=b"z")), PushBundle(bundle)),
            *(StopService(), InstallRelease(bundle, "numpy", "cpu", 30, first=True)),
            *(WriteService(made, Service()), MakeLedger(Service()), StartService()),
        )
        yield Plan(steps, "numpy", "numpy")


def commands():
    """Every list of words that a flash or a first boot runs as root, and those of the units it writes."""
    found = []
    for plan in plans():
        line = Recorded()
        execute(plan, Board(line))
        found += [one.split(" ") for one in line.ran]
        tree = sd_card.tree(plan, "/opt/edgeveil", {})
        for data in tree.values():
            text = data.decode("utf-8", "replace")
            found += [one.split() for one in re.findall(r"^Exec\w+=[-+!@]*(.*)$", text, re.MULTILINE)]
        found += [line.split() for line in tree["run.sh"].decode().splitlines()]
    return found


def below_a_foreign_folder(words):
    paths = [word.rpartition(":")[2] for word in words if word.startswith("/")]
    changes = any(Path(word).name in CHANGES for word in words[:3])
    return changes and [path for path in paths if any(path.startswith(folder + "/") for folder in FOREIGN)]


def test_no_command_of_a_flash_changes_a_name_below_a_folder_that_is_not_roots():
    every = commands()
    assert {"install", "systemctl"} <= {words[0] for words in every if words}
    assert any(word.startswith(LEDGER) for words in every for word in words)
    assert [words for words in every if below_a_foreign_folder(words)] == []
    # The commands that made the ledger before, by which a taken-over outside got any file of root's.
    for old in (
        ["chown", "a:a", LEDGER + ".new"],
        ["mv", "-n", LEDGER + ".new", LEDGER],
        ["sudo", "-n", "chmod", "1", LEDGER],
    ):
        assert below_a_foreign_folder(old)


# Each place of a program that runs as root on a board where an owner or a mode is changed by name: whose folder it is.
BY_NAME = {
    ("boot_from_card.py", "_place", "chmod"): "/etc/edgeveil, /etc/systemd and EdgeVeil's folder, which are root's",
    ("boot_from_card.py", "_place", "chown"): "the same",
    ("run_rows.py", "_done", "chmod"): "a folder of the login's user, closed to others, who may become root",
}


def changes_by_name(path):
    tree = ast.parse(path.read_text())
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        for call in [node for node in ast.walk(function) if isinstance(node, ast.Call)]:
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            if name in ("chown", "lchown", "chmod", "lchmod"):
                yield path.name, function.name, name


def test_no_program_for_a_board_changes_an_owner_by_name_elsewhere():
    found = {one for path in sorted((ROOT / "devices/agents").glob("*.py")) for one in changes_by_name(path)}
    assert found == set(BY_NAME)


class Here:
    """A transport that runs the commands on this machine."""

    name, trusted, python = "this machine", True, sys.executable

    def run(self, command, *, data=b"", timeout_s=120):
        done = subprocess.run([str(word) for word in command], input=data, capture_output=True, timeout=timeout_s)
        return Completed(done.returncode, done.stdout, done.stderr)


# What a taken-over outside does: whatever appears in its folder becomes a link to a file of root's.
ATTACK = """
import os, sys
os.setgroups([]); os.setgid(1); os.setuid(1)
folder, victim = sys.argv[1:]
print("ready", flush=True)
while True:
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        try:
            if not os.path.islink(path):
                os.unlink(path); os.symlink(victim, path)
        except OSError:
            pass
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="ONLY ROOT makes a ledger for another user")


@pytest.fixture
def place():
    """A board's folders: the ledger's belongs to the user 1, as StateDirectory= makes it, and one file is root's."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        top.chmod(0o755)
        for name in ("state", "opt/runtime/current", "opt/current"):
            (top / name).mkdir(parents=True)
        os.chown(top / "state", 1, 1)
        for name in ("runtime/current", "current"):
            (top / "opt" / name / "edgeveil-edge.pyz").write_bytes(zipapp_bytes())
        (top / "victim").write_text("root's\n")
        (top / "victim").chmod(0o600)
        yield top


def facts(path):
    found = path.stat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode), found.st_nlink, path.read_text()


@needs_root
@pytest.mark.parametrize("attempt", range(3))
def test_a_taken_over_outside_gets_no_file_of_roots_when_its_ledger_is_made(place, attempt):
    before = facts(place / "victim")
    attacker = subprocess.Popen(
        [sys.executable, "-c", ATTACK, place / "state", place / "victim"], stdout=subprocess.PIPE
    )
    try:
        assert attacker.stdout.readline() == b"ready\n"
        with contextlib.suppress(EdgeVeilError):  # it ends its own service, and that is all
            make_ledger(Board(Here(), root=str(place / "opt")), str(place / "state/ledger"), "daemon")
        time.sleep(0.2)
    finally:
        attacker.kill()
        attacker.wait()
    assert facts(place / "victim") == before


@needs_root
@pytest.mark.programs
@pytest.mark.parametrize("name", ["ledger", "ledger.tmp", "ledger.new"])
def test_a_link_that_waits_under_a_name_is_not_followed(place, name):
    programs.need("machine-id")
    before = facts(place / "victim")
    (place / "state" / name).symlink_to(place / "victim")
    try:
        make_ledger(Board(Here(), root=str(place / "opt")), str(place / "state/ledger"), "daemon")
    except EdgeVeilError:
        assert name != "ledger.new"
    assert facts(place / "victim") == before


@needs_root
def test_a_folder_of_the_ledger_that_is_a_link_is_refused(place):
    (place / "other").mkdir()
    (place / "linked").symlink_to(place / "other")
    with pytest.raises(EdgeVeilError, match="expected a folder for the ledger"):
        make_ledger(Board(Here(), root=str(place / "opt")), str(place / "linked/ledger"), "daemon")
    assert (place / "other").stat().st_uid == 0


@needs_root
@pytest.mark.programs
def test_the_ledger_is_its_users_and_one_that_is_there_stays(place):
    programs.need("machine-id")
    board, ledger = Board(Here(), root=str(place / "opt")), place / "var/state/ledger"
    make_ledger(board, str(ledger), "daemon")
    assert (ledger.stat().st_uid, ledger.stat().st_gid, ledger.parent.stat().st_uid) == (1, 1, 1)
    data = ledger.read_bytes()
    with pytest.raises(EdgeVeilError, match=r"there is a file at .* already"):
        make_ledger(board, str(ledger), "daemon")
    assert ledger.read_bytes() == data
    assert [*ledger.parent.iterdir()] == [ledger]
    make_ledger(board, str(ledger), "daemon", anew=True)
    (aside,) = set(ledger.parent.iterdir()) - {ledger}
    assert (aside.read_bytes(), aside.stat().st_uid, ledger.stat().st_uid) == (data, 1, 1)
    assert ledger.read_bytes() != data
