"""A board's first month: a late camera, sudo with a password, two cameras, the clock a day forward again and again.

The tests follow each other on one virtual board: each of its boots takes minutes.
"""

import json
import shutil
import time

import pytest

from edgeveil.devices.flashing import sd_card
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support.boards import emulated_boards
from tests.support.boards.board_service import PATIENCE_S, healthy
from tests.support.watching_bundle import watching_bundle

pytestmark = [pytest.mark.boards, pytest.mark.slow]

LATE_S, DAYS, STALE_DAYS = 120, 30, 20
PASSWORD = "correct horse, battery"  # noqa: S105 - of the board's own user
HALL = "/opt/edgeveil-hall"
MODULES = "/etc/modules-load.d/camera.conf"
KEEP = 3
ASK = """
import json, sys, urllib.request
for port in sys.argv[1:]:
    with urllib.request.urlopen("http://127.0.0.1:%s/healthz" % port, timeout=20) as page:
        found = json.load(page)
    print(json.dumps([found["bundle"], found["frames_out"]]))
"""


@pytest.fixture(scope="module")
def owner(edgeveil, tmp_path_factory):
    """The owner's options for every flash, and two releases."""
    folder = tmp_path_factory.mktemp("owner")
    trust, first, second = watching_bundle(folder, "first", "second")
    TrustFolder.open(trust).settle(index_stale_days=STALE_DAYS, passphrase="correct horse")  # noqa: S106
    wheels = emulated_boards.wheels(emulated_boards.LITERT, emulated_boards.OPENCV)
    edgeveil("wheels", "raspberry-pi-cpu", *wheels, "--out", folder / "wheels")
    return ["--for", "raspberry-pi-cpu", "--trust", trust, "--wheels", folder / "wheels"], first, second


@pytest.fixture(scope="module")
def board(edgeveil, owner, tmp_path_factory):
    """A board that booted from a card that brought the first release, and whose camera is not plugged in."""
    folder = tmp_path_factory.mktemp("month")
    card = emulated_boards.new_card(folder / "card.img")
    sd_card.open_media(f"image:{card}").remove([MODULES])
    service = ["--source", "camera:0", "--sink", f"npz:/var/lib/edgeveil/hall?rotate=20s&keep={KEEP}"]
    edgeveil("flash", owner[1].path, "--on", f"image:{card}", *owner[0], *service, "--json")
    with emulated_boards.board("vm", card=card) as up:
        yield up
    shutil.rmtree(folder)


def test_two_minutes_without_a_camera_end_nothing(board):
    """Two minutes without a camera end nothing and use up no restart; with it frames come."""
    until = time.monotonic() + PATIENCE_S
    while b"waits for it" not in (said := board.run("journalctl --no-pager -o cat -u 'edgeveil*'").stdout):
        assert time.monotonic() < until, said[-2000:]
        time.sleep(5)
    time.sleep(LATE_S)
    assert restarts(board, "edgeveil-inside") <= 1
    began = time.monotonic()
    board.run(
        "echo vivid > /etc/modules-load.d/camera.conf && echo options vivid n_devs=2 node_types=0x1,0x1 > "
        "/etc/modprobe.d/vivid.conf && modprobe vivid && udevadm settle && test -c /dev/video1"
    )
    healthy(board)
    found = {
        "waited_s": LATE_S,
        "frames_after_s": round(time.monotonic() - began, 1),
        "restarts": restarts(board, "edgeveil-inside"),
    }
    emulated_boards.record("month-late-camera.json", found)


def restarts(board, unit):
    """How often systemd started it again."""
    return int(board.run(f"systemctl show -P NRestarts {unit}").stdout)


def test_sudo_with_a_password(board, owner, edgeveil, tmp_path):
    """As Raspberry Pi OS has it since 2026: pi may sudo with the password alone, and it is nowhere afterwards."""
    board.run(
        "rm /etc/sudoers.d/010_pi-nopasswd && echo 'pi ALL=(ALL) ALL' > /etc/sudoers.d/010_pi && chpasswd",
        data=f"pi:{PASSWORD}\n".encode(),
    )
    flash = ["flash", owner[2].path, "--on", board.as_pi, *owner[0], *board.options()]
    refused = {}
    for name, text in (("none", None), ("wrong", "battery")):
        file = [] if text is None else ["--password-file", write(tmp_path / name, text)]
        refused[name] = edgeveil(*flash, *file, code=2)
    assert "sudo without a password" in refused["none"]
    assert "was not the one given" in refused["wrong"]
    assert healthy(board)["bundle"] == "first", "nothing was changed"
    edgeveil(*flash, "--password-file", write(tmp_path / "right", PASSWORD), "--json")
    assert healthy(board)["bundle"] == "second"
    places = "/etc /home /opt /root /run/edgeveil /tmp /var/lib /var/log /run/log /var/tmp"
    found = board.run(f"grep -rlaF '{PASSWORD}' {places} 2>/dev/null", any_code=True).stdout
    assert found == b"", "the password lies on the board"
    emulated_boards.record("month-sudo.json", {"refused": refused, "places_searched": places, "files_with_it": 0})


def write(path, text):
    path.write_text(text + "\n")
    return path


def test_two_cameras(board, owner, edgeveil):
    """Another service beside the first has its own units, users, settings and pages; the same camera is refused."""
    flash = ["flash", owner[1].path, "--on", board.target, *owner[0], *board.options(), "--root", HALL]
    sink = ["--sink", f"npz:/var/lib/edgeveil-hall/out?rotate=20s&keep={KEEP}"]
    taken = edgeveil(*flash, "--source", "camera:0", *sink, code=2)
    assert "is the camera of the service edgeveil" in taken
    edgeveil(*flash, "--source", "camera:1", *sink, "--json")
    board.put(ASK.encode(), "/root/both.py")
    told = [json.loads(line) for line in board.run("python3 /root/both.py 9464 9465").stdout.splitlines()]
    assert [name for name, _ in told] == ["second", "first"]
    assert min(count for _, count in told) > 0
    users = board.run("ps -eo user:32,args | grep 'edgeveil-edge.pyz' | grep -v grep | awk '{print $1}' | sort").stdout
    assert set(users.decode().split()) >= {"edgeveil", "edgeveil-inside", "edgeveil-hall", "edgeveil-hall-inside"}
    secret = board.run("runuser -u edgeveil -- cat /etc/edgeveil-hall/edge.json", any_code=True)
    assert secret.returncode, "one service may not read the settings of the other"
    edgeveil("stop", "--on", board.target, *board.options(), "--root", HALL)
    states = board.run("systemctl is-active edgeveil edgeveil-hall", any_code=True).stdout.split()
    assert states == [b"active", b"inactive"]
    found = {"same_camera": taken, "pages": told, "users": sorted(set(users.decode().split()))}
    emulated_boards.record("month-two-cameras.json", found)


def test_a_month_of_days(board):
    """The clock goes a day forward again and again; no file, log or restart adds up, until the index is too old."""
    used, logged = disk(board), log_lines(board)
    ended_on, before = None, restarts(board, "edgeveil")
    board.put(b"import time; time.clock_settime(time.CLOCK_REALTIME, time.time() + 86400)", "/root/day.py")
    for day in range(1, DAYS + 1):
        board.run("python3 /root/day.py")
        time.sleep(12)
        if board.run("systemctl is-active edgeveil", any_code=True).stdout.strip() != b"active":
            ended_on = day
            break
    said = board.run("journalctl --no-pager -o cat -n 20 -u edgeveil").stdout.decode()
    code = board.run("systemctl show -P ExecMainStatus edgeveil").stdout.decode().strip()
    parts = int(board.run("ls /var/lib/edgeveil/hall | wc -l").stdout)
    grown = disk(board) - used
    assert code == "70", "an index too old ends the service for privacy, and it is not started again"
    assert f"its trust file allows {STALE_DAYS}" in said
    assert STALE_DAYS <= ended_on <= STALE_DAYS + 8
    assert restarts(board, "edgeveil") == before
    assert parts <= KEEP + 2
    assert grown < 8 * 2**20
    found = {
        "days": ended_on,
        "ended": said.strip().splitlines()[-1],
        "bytes_more_on_disk": grown,
        "lines_logged": log_lines(board) - logged,
        "parts_kept": parts,
    }
    emulated_boards.record("month-days.json", found)


def disk(board):
    """Bytes of the card that are in use."""
    return int(board.run("sync; df --output=used -B1 / | tail -1").stdout)


def log_lines(board):
    """How much the service said."""
    return int(board.run("journalctl --no-pager -o cat -u 'edgeveil*' | wc -l").stdout)
