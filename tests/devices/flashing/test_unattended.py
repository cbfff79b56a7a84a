"""A board that nobody stands beside: an overlay root is refused and cured, RAUC updates it, and its watchdog fires.

The root is the kernel's own overlay, RAUC is Debian's with its service and systemd's bus, and the watchdog is a card
that qemu emulates (Intel 6300ESB): it resets the machine when the kernel has stopped.
"""

import json
import shutil
import subprocess

import pytest

from scripts.emulation.card import BOOT_AT, CMDLINE
from tests.support import programs
from tests.support.boards import emulated_boards
from tests.support.boards.board_service import healthy
from tests.support.checkout import ROOT
from tests.support.vendors import rauc_bundles
from tests.support.watching_bundle import watching_bundle

pytestmark = [pytest.mark.boards, pytest.mark.slow, pytest.mark.programs]

NAME = "raspberry-pi-cpu"
WATCHDOG_S = 120  # a Raspberry Pi's 15 s are too few for an emulated board on a busy machine
PLACES = {"folder": "/etc/rauc", "mounts": "/run/rauc", "system": "/dev/vda2", "root": "/opt/edgeveil"}


@pytest.fixture
def card(tmp_path):
    """A card whose root file system is an overlay in memory, as ``raspi-config`` sets one up."""
    place = emulated_boards.new_card(tmp_path / "card.img")
    (tmp_path / "cmdline.txt").write_text(f"{CMDLINE} boot=overlay\n")
    subprocess.run(
        [programs.need("mcopy"), "-o", "-i", f"{place}@@{BOOT_AT}", str(tmp_path / "cmdline.txt"), "::cmdline.txt"],
        check=True,
    )
    yield place
    shutil.rmtree(tmp_path)


def test_overlay_rauc_and_watchdog(edgeveil, card, tmp_path):
    programs.need("rauc", "mksquashfs", "openssl")
    trust, first, second, third = watching_bundle(tmp_path, "first", "second", "third")
    wheels = emulated_boards.wheels(emulated_boards.LITERT, emulated_boards.OPENCV)
    edgeveil("board", "wheels", NAME, *wheels, "--out", tmp_path / "wheels")
    profile = tmp_path / f"{NAME}.toml"
    shipped = (ROOT / "devices/profiles" / profile.name).read_text()
    assert "\nwatchdog_s = 15\n" in shipped
    profile.write_text(shipped.replace("\nwatchdog_s = 15\n", f"\nwatchdog_s = {WATCHDOG_S}\n"))
    with emulated_boards.board("vm", card=card, watchdog=True) as board:
        login = ["--on", board.target, *board.options()]
        flash = ["flash", first.path, *login, "--for", profile, "--trust", trust, "--wheels", tmp_path / "wheels"]
        flash += ["--source", "camera:0", "--sink", "npz:/var/lib/edgeveil/hall?rotate=1MB,20s&keep=3"]
        shown = {"overlay": overlay(board, edgeveil, login, flash)}
        edgeveil(*flash)
        assert healthy(board)["bundle"] == "first"
        shown["watchdog"] = watchdog(board)
        shown["RAUC"] = rauc(board, tmp_path, second.path, spoilt(third.path))
    emulated_boards.record("unattended.json", shown)
    assert shown["overlay"]["folders of EdgeVeil after the refusal"] == 0
    assert "overlay" in shown["overlay"]["refused"]
    assert shown["overlay"]["cured"]["found"] != shown["overlay"]["checked"]["found"]
    assert shown["watchdog"]["ran afterwards"] == "first"
    assert shown["RAUC"]["runs"] == ["second", "second"]


def overlay(board, edgeveil, login, flash):
    """The check and the flash say it and change nothing; then what the cure does, and a boot."""

    def storage(code):
        said = json.loads(edgeveil("board", "check", *login, "--for", NAME, "--json", code=code))
        return next(one for one in said["findings"] if one["what"] == "storage")

    root = board.run("findmnt -no FSTYPE /").stdout.decode().strip()
    assert root == "overlay"
    checked = storage(3)
    refused = edgeveil(*flash, code=2)
    left = int(board.run("ls -d /opt/edgeveil* /etc/edgeveil* 2>/dev/null | wc -l").stdout)
    board.run("sed -i 's/ boot=overlay//' /boot/firmware/cmdline.txt && sync")
    board.restarted()
    return {
        "root": root,
        "checked": checked,
        "refused": refused,
        "folders of EdgeVeil after the refusal": left,
        "cured": storage(3),  # it has no interpreter yet
    }


def watchdog(board):
    """The kernel panics, and stays so (``panic=0``): nobody but the watchdog can restart the board."""
    usec = board.run("systemctl show -P RuntimeWatchdogUSec").stdout.decode().strip()
    said = board.run("journalctl --no-pager -o cat -b | grep -i 'using hardware watchdog' | tail -1").stdout
    assert b"6300ESB" in said
    assert board.run("cat /proc/sys/kernel/panic").stdout.strip() == b"0"
    seconds = board.restarted("(sleep 2; echo c > /proc/sysrq-trigger) > /dev/null 2>&1 &")
    return {
        "systemd's": usec,
        "said": said.decode().strip(),
        "seconds from the panic to ssh": seconds,
        "ran afterwards": healthy(board)["bundle"],
    }


def rauc(board, folder, good, bad):
    """RAUC's client installs a release, and gets one that the board's trust refuses."""
    certificate = rauc_bundles.fleet_key(folder)
    board.run("mkdir -p /etc/rauc")
    board.put(rauc_bundles.SYSTEM.format(**PLACES).encode(), "/etc/rauc/system.conf")
    board.put(certificate.read_bytes(), "/etc/rauc/fleet.pem")
    runs, said = [], []
    for veil in (good, bad):
        board.put(rauc_bundles.rauc_bundle(folder, veil).read_bytes(), f"/root/{veil.stem}.raucb")
        done = board.run(f"rauc install /root/{veil.stem}.raucb", any_code=True)
        runs.append(healthy(board)["bundle"])
        lines = (done.stdout + done.stderr).decode().splitlines()
        told = [line for line in lines if line.startswith(("LastError", "Installing"))]
        said.append({"code": done.returncode, "told": told})
    log = board.run("journalctl --no-pager -o cat -u rauc").stdout.decode()
    version = board.run("rauc --version").stdout.decode().strip()
    assert [one["code"] for one in said] == [0, 1], log
    ours = [line for line in log.splitlines() if line.startswith(("now runs", "error:"))]
    return {"version": version, "runs": runs, "said": said, "log": ours}


def spoilt(path):
    """The same file with one byte changed."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return path
