"""A card that Raspberry Pi Imager set up, in the virtual board: its first run runs, then EdgeVeil's, then the service.

``systemd.run=`` and ``kernel-command-line.target`` are systemd's own. The script does what Imager's does on a system
without Raspberry Pi's tools.
"""

import shutil
import subprocess

import pytest

from edgeveil.devices.flashing import sd_card
from scripts.emulation.card import BOOT_AT, CMDLINE
from tests.devices.flashing.test_first_runs import IMAGER
from tests.support import programs
from tests.support.boards import emulated_boards
from tests.support.boards.board_service import healthy
from tests.support.watching_bundle import OVERHEAD, watching_bundle

pytestmark = [pytest.mark.boards, pytest.mark.slow, pytest.mark.programs]

NAME = "raspberry-pi-cpu"
FIRSTRUN = """#!/bin/bash
set +e
echo edgepi > /etc/hostname
sed -i 's/raspberrypi/edgepi/g' /etc/hosts
useradd -m -s /bin/bash ada
usermod -p '*' ada
rm -f /boot/firstrun.sh /boot/firmware/firstrun.sh
sed -i 's| systemd.run.*||g' /boot/firmware/cmdline.txt
exit 0
"""


@pytest.fixture
def card(tmp_path, edgeveil):
    """A card whose boot partition alone was written: by Imager, then by a flash of the folder where it is mounted."""
    trust, first = watching_bundle(tmp_path, "first", capture=OVERHEAD)
    edgeveil("board", "wheels", NAME, "--out", tmp_path / "wheels")
    place = emulated_boards.new_card(tmp_path / "card.img")
    fat, mounted = f"{place}@@{BOOT_AT}", tmp_path / "bootfs"
    mounted.mkdir()
    (mounted / "cmdline.txt").write_text(f"{CMDLINE} {IMAGER}\n")
    (mounted / "firstrun.sh").write_text(FIRSTRUN)
    words = ["--for", NAME, "--trust", trust, "--wheels", tmp_path / "wheels", "--source", "simulate:depth"]
    edgeveil(
        "flash", first.path, "--on", f"dir:{mounted}", *words, "--sink", "npz:/var/lib/edgeveil/hall?rotate=1MB,20s"
    )
    subprocess.run([programs.need("mcopy"), "-s", "-o", "-i", fat, *map(str, mounted.iterdir()), "::"], check=True)
    yield place
    shutil.rmtree(tmp_path)


def test_imagers_first_run_then_edgeveils_then_the_service(card):
    with emulated_boards.board("vm", card=card) as board:
        shown = {"runs": healthy(board)["bundle"]}
        shown["host name"] = board.run("hostname").stdout.decode().strip()
        shown["its user"] = board.run("id -un ada").stdout.decode().strip()
        shown["kernel's line"] = board.run("cat /boot/firmware/cmdline.txt").stdout.decode().strip()
        shown["log"] = board.run(f"cat /boot/firmware/{sd_card.TREE}.log").stdout.decode().splitlines()[-3:]
        left = board.run("ls /boot/firmware").stdout.decode().split()
    emulated_boards.record("imager-card.json", shown)
    assert (shown["runs"], shown["host name"], shown["its user"]) == ("first", "edgepi", "ada")
    assert shown["kernel's line"] == CMDLINE
    assert shown["log"][-1] == "ended with code 0"
    assert not {"firstrun.sh", sd_card.TREE} & set(left)
