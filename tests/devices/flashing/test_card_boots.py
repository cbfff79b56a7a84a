"""A card that was flashed, in a whole virtual board: it boots, and the service runs. Then the same board over ssh."""

import json
import os
import shutil
import time

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from edgeveil.devices.flashing import sd_card, service_files
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.sealing.keys import write_index
from tests.support import bundles, output
from tests.support.boards import emulated_boards
from tests.support.boards.board_service import PATIENCE_S, exposure, healthy, units
from tests.support.checkout import ROOT
from tests.support.watching_bundle import watching_bundle

pytestmark = [pytest.mark.boards, pytest.mark.slow, pytest.mark.programs]

WHEELS = (emulated_boards.LITERT, emulated_boards.OPENCV)
UNITS = ROOT / "devices/flashing/units"
WORST = 3.0  # of systemd-analyze's 10


@pytest.fixture(scope="module")
def card(tmp_path_factory):
    """An SD card that never booted; as large as one, so it does not stay."""
    if "EDGEVEIL_VIRTUAL_BOARD" not in os.environ:
        pytest.skip("NO CARD WAS BOOTED: it takes minutes; set EDGEVEIL_VIRTUAL_BOARD=1 for it")
    folder = tmp_path_factory.mktemp("card")
    yield emulated_boards.new_card(folder / "card.img")
    shutil.rmtree(folder)


@pytest.fixture
def edgeveil(monkeypatch, capfd):
    """Runs ``edgeveil``, and returns its standard output and the seconds that it took."""
    command = output.in_process(monkeypatch, capfd)

    def run(*arguments):
        began = time.monotonic()
        code, out, said = command(*arguments)
        assert code == 0, said
        return out, round(time.monotonic() - began, 1)

    return run


def test_a_flashed_card_boots_and_serves_is_flashed_over_ssh_goes_back_and_boots_again(card, tmp_path, edgeveil):
    trust, first, second, third = watching_bundle(tmp_path, "first", "second", "third")
    edgeveil("board", "wheels", "raspberry-pi-cpu", *emulated_boards.wheels(*WHEELS), "--out", tmp_path / "wheels")
    common = ["--for", "raspberry-pi-cpu", "--trust", trust]
    common += ["--wheels", tmp_path / "wheels"]
    service = ["--source", "camera:0", "--sink", "npz:/var/lib/edgeveil/hall?rotate=1MB,20s"]
    out, written_s = edgeveil("flash", first.path, "--on", f"image:{card}", *common, *service, "--json")
    sha = json.loads(out)["sha"]
    assert sd_card.open_media(f"image:{card}").read(f"/{sd_card.TREE}/bundle.veil") == first.path.read_bytes()

    began = time.monotonic()
    with emulated_boards.board("vm", card=card) as board:
        ssh_s = time.monotonic() - began
        health = healthy(board)
        first_frames_s = time.monotonic() - began
        probed, _ = edgeveil("board", "probe", "--on", board.as_pi, *board.options(), "--json")
        there = json.loads(probed)["edgeveil"]
        assert (there["committed"], there["service_active"]) == (sha, True)
        assert health["bundle"] == "first"
        assert "seccomp filter" in health["isolation"]
        assert board.run("ls /opt").stdout == b"edgeveil\n"
        assert units(board) == ["active", "active", "active"]
        owner_of = "grep ^Uid: /proc/$(systemctl show -P MainPID edgeveil-inside)/status | cut -f2"
        assert board.run(owner_of).stdout == board.run("id -u edgeveil-inside").stdout
        inside = board.run("nsenter -n -t $(systemctl show -P MainPID edgeveil-inside) ip -o link").stdout.decode()
        assert inside.startswith("1: lo:")
        assert inside.count("\n") == 1

        record = {
            "kernel": board.run("uname -r").stdout.decode().strip(),
            "system": json.loads(probed)["system"],
            "machine": "qemu-system-aarch64 virt, Cortex-A53, two cores; the machine under it was busy",
            "image": "MBR, FAT boot partition (written), ext4 root file system (1.6 GB)",
            "bundle": sha,
            "wheels": list(WHEELS),
            "seconds": {
                "card written and read back": written_s,
                "switched on to ssh": round(ssh_s, 1),
                "switched on to frames out of the service (first boot)": round(first_frames_s, 1),
            },
            "units": units(board),
            "health after the first boot": health,
            "log of the first boot": board.run(f"cat /boot/firmware/{sd_card.TREE}.log")
            .stdout.decode()
            .splitlines()[-3:],
        }
        emulated_boards.record("card.json", record)

        # Later flashes as the usual user, who may sudo: the configuration stays, the running service gets the new one.
        out, record["seconds"]["second release over ssh as pi"] = edgeveil(
            "flash", second.path, "--on", board.as_pi, *common, *board.options(), "--json"
        )
        assert json.loads(out)["steps"] == ["upload", "install", "start"]
        assert healthy(board)["bundle"] == "second"
        out, _ = edgeveil("flash", second.path, "--on", board.as_pi, *common, *service, *board.options(), "--json")
        assert json.loads(out)["steps"] == []
        edgeveil("board", "rollback", "--on", board.as_pi, *board.options())
        assert healthy(board)["bundle"] == "first"
        record["rolled back as pi to"] = "first"
        record["a hung outside"] = hang(board)
        fetched_s = fetch(board, edgeveil, third, first, common, tmp_path)
        found = exposure(board)  # of all units: now they are there
        # Its camera is its own: there is no process that gets the frames for the inside.
        assert set(found) == {path.name for path in UNITS.glob("*.service")} - {service_files.CAMERA}
        assert max(found.values()) <= WORST
        systemd = board.run("systemctl --version | head -1").stdout.decode().strip()
        facts = {"kernel": record["kernel"], "systemd": systemd, "exposure by systemd-analyze, of 10": found}
        emulated_boards.record("units.json", facts)
        record["seconds"]["third release fetched by the timer's unit"] = fetched_s

        again = time.monotonic()
        board.restarted()
        assert healthy(board)["bundle"] == "third"
        record["seconds"]["rebooted to frames out of the service"] = round(time.monotonic() - again, 1)
        emulated_boards.record("card.json", record)


def fetch(board, edgeveil, third, there, common, folder):
    """The timer is installed by a flash of what runs already; its unit, started now, finds the third release."""
    (folder / "keys").mkdir()
    pem = bundles.KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "keys/signing.key").write_bytes(pem)
    (folder / "keys/signing.key").chmod(0o600)
    (folder / "keys/signing.pub").write_text(public_key_line(bundles.trusted()))
    write_index([third.path], folder / "keys/signing.key", folder / "index.json", name="hall")
    board.run("mkdir -p /srv/updates")
    for path in (third.path, folder / "index.json"):
        board.put(path.read_bytes(), f"/srv/updates/{path.name}")
    more = [*board.options(update="dir:/srv/updates"), "--json"]
    out, _ = edgeveil("flash", there.path, "--on", board.as_pi, *common, *more)
    assert json.loads(out)["steps"] == ["service", "start"]
    assert board.run("systemctl is-active edgeveil-update.timer").stdout == b"active\n"
    began = time.monotonic()
    board.run("systemctl start edgeveil-update.service", timeout_s=PATIENCE_S)
    assert healthy(board)["bundle"] == "third"
    return round(time.monotonic() - began, 1)


def hang(board):
    """Stop the outside's clockwork: systemd's watchdog has to see it, and to start it again."""
    board.run("kill -STOP $(systemctl show -P MainPID edgeveil)")
    deadline = time.monotonic() + PATIENCE_S
    while board.run("systemctl show -P NRestarts edgeveil").stdout.strip() == b"0":
        assert time.monotonic() < deadline
        time.sleep(3)
    assert healthy(board)["bundle"] == "first"
    said = board.run("journalctl --no-pager -o cat -u edgeveil | grep -m1 Failed.with.result").stdout.decode().strip()
    assert "watchdog" in said
    return said
