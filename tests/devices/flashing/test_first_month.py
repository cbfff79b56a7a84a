"""A card's first month on the virtual board: the camera comes late, sudo asks for a password, and days go by.

The clock is moved a day at a time. The service has nothing to do but to run: its parts and its log may not fill the
card, and its update index, of which no newer version comes, ends it on the day that the trust file says.
"""

import json
import shutil
import subprocess
import time

import pytest

from edgeveil.trainer.sealing.trust_file import TrustFolder
from scripts.emulation.card import ROOT_AT
from tests.support import programs
from tests.support.boards import emulated_boards
from tests.support.boards.board_service import PATIENCE_S, healthy
from tests.support.watching_bundle import watching_bundle

pytestmark = [pytest.mark.boards, pytest.mark.slow, pytest.mark.programs]

PASSWORD = "correct battery"  # noqa: S105 - of the virtual board's pi
CAMERA_LIST = "/etc/modules-load.d/camera.conf"
LATE_S, WORST_S = 120, 60  # at most 30 s late, and an emulated board opens slowly
PARTS, STALE_DAYS, FILES = 3, 28, 7
MOST_GROWTH = 16 * 2**20
JOURNAL = f"[Journal]\nMaxFileSec=1day\nSystemMaxFiles={FILES}\nRuntimeMaxFiles={FILES}\n"
ASK_HEALTH = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9464/healthz', timeout=20).read().decode())"


@pytest.fixture
def card(edgeveil, tmp_path):
    """A flashed card whose board has no camera yet; the second release; and how both were made."""
    trust, first, second = watching_bundle(tmp_path, "first", "second")
    TrustFolder.open(trust).settle(index_stale_days=STALE_DAYS, passphrase="correct horse")  # noqa: S106
    wheels = emulated_boards.wheels(emulated_boards.LITERT, emulated_boards.OPENCV)
    edgeveil("board", "wheels", "raspberry-pi-cpu", *wheels, "--out", tmp_path / "wheels")
    common = ["--for", "raspberry-pi-cpu", "--trust", trust, "--wheels", tmp_path / "wheels"]
    place = emulated_boards.new_card(tmp_path / "card.img")
    (tmp_path / "days.conf").write_text(JOURNAL)
    folder = "/etc/systemd/journald.conf.d"
    commands = (f"rm {CAMERA_LIST}", f"mkdir {folder}", f"write {tmp_path}/days.conf {folder}/days.conf")
    debugfs = [programs.need("debugfs"), "-w", "-f", "-", f"{place}?offset={ROOT_AT}"]
    subprocess.run(debugfs, input="\n".join(commands), text=True, check=True)
    service = ["--source", "camera:0", "--sink", f"npz:/var/lib/edgeveil/hall?rotate=1MB,20s&keep={PARTS}"]
    edgeveil("flash", first.path, "--on", f"image:{place}", *common, *service)
    yield place, second, common
    shutil.rmtree(tmp_path)


def test_a_month_after_a_card_was_written(card, edgeveil, tmp_path):
    place, second, common = card
    with emulated_boards.board("vm", card=place) as board:
        late = camera_late(board)
        password_sudo(board, edgeveil, tmp_path, second, common)
        days = month(board)
        ended = red(board, edgeveil)
    emulated_boards.record(
        "first-month.json", {"camera": late, "flashed by sudo with a password": True, "days": days, "ended": ended}
    )
    assert late["frames before it"] == 0
    assert late["seconds until frames left"] <= WORST_S
    assert all(one["frames_out"] > before["frames_out"] for before, one in zip(days, days[1:], strict=False))
    assert max(one["parts"] for one in days) <= PARTS + 1
    assert days[-1]["newest part"] > days[0]["newest part"] + PARTS, "parts rotated"
    assert max(one["journal files"] for one in days) <= FILES + 2
    assert days[-1]["journal files"] > 2, "the journal rotated"
    assert days[-1]["disk"] - days[0]["disk"] <= MOST_GROWTH
    assert ended["status"] == "70"
    assert f"its trust file allows {STALE_DAYS}" in ended["said"]
    assert ended["index_days"] > STALE_DAYS


def health(board):
    """What the service says of itself; nothing where it does not answer."""
    said = board.run(f'python3 -c "{ASK_HEALTH}"', any_code=True, timeout_s=120).stdout
    return json.loads(said) if said else {}


def camera_late(board):
    """Attach the camera two minutes after the boot, and not before the service waits for it."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := health(board)) or up_s(board) < LATE_S:
        assert time.monotonic() < deadline, "no service without a camera"
        time.sleep(3)
    assert board.run("ls /dev/video0", any_code=True).returncode
    assert found["live"] == "ok", "it waits, it has not ended"
    attached_s = up_s(board)
    board.run("modprobe vivid && udevadm settle && test -c /dev/video0")
    healthy(board)
    return {
        "attached s after the boot": attached_s,
        "seconds until frames left": round(up_s(board) - attached_s, 1),
        "frames before it": found["frames_out"],
    }


def up_s(board):
    """Seconds since the board booted."""
    return float(board.run("cut -d' ' -f1 /proc/uptime").stdout)


def password_sudo(board, edgeveil, folder, second, common):
    """From now on pi's sudo wants a password. A wrong one changes nothing, the right one flashes and stays nowhere."""
    board.run("chpasswd", data=f"pi:{PASSWORD}\n".encode())
    board.run("echo 'pi ALL=(ALL) ALL' > /etc/sudoers.d/010_pi-nopasswd")
    flash = ["flash", second.path, "--on", board.as_pi, *common]
    login = board.options(password_file=folder / "password")
    (folder / "password").write_text("wrong\n")
    refused = edgeveil(*flash, *login, code=2)
    assert "password" in refused
    assert health(board)["bundle"] == "first"
    (folder / "password").write_text(PASSWORD + "\n")
    out = edgeveil(*flash, *login, "--json")
    assert json.loads(out)["steps"] == ["upload", "install", "start"]
    assert healthy(board)["bundle"] == "second"
    found = f"journalctl --no-pager | grep -c '{PASSWORD}'; grep -rl '{PASSWORD}' /home /root /opt /etc /var /tmp /run"
    assert board.run(found, any_code=True).stdout.split() == [b"0"]


def month(board):
    """Days of the board's own clock, each some seconds long; what was there on the first, on some, and on the last."""
    board.run("sleep 60")  # until as many parts are kept as ever
    days = []
    for day in range(STALE_DAYS):
        if day in (0, 1, STALE_DAYS // 2, STALE_DAYS - 1):
            days.append({"day": day, **looked(board)})
        board.run("date -s '+1 day' > /dev/null && sleep 6")
    return days


def looked(board):
    """What lies on the board, and what the service says."""
    ask = "sync; ls /var/lib/edgeveil/hall | sed 's/[^0-9]//g' | sort -n | tail -1; ls /var/lib/edgeveil/hall | wc -l; "
    ask += "find /var/log/journal /run/log/journal -name '*.journal' 2>/dev/null | wc -l; "
    ask += "df --output=used -B1 / | tail -1; date -u +%F"
    newest, parts, files, disk, date = board.run(ask).stdout.decode().split()
    there = {"date": date, "newest part": int(newest), "parts": int(parts), "journal files": int(files)}
    return {**there, "disk": int(disk), "frames_out": health(board)["frames_out"]}


def red(board, edgeveil):
    """After the last day that the trust file allows, the service ends itself; what is shown of it then."""
    board.run("date -s '+1 day' > /dev/null")
    deadline = time.monotonic() + PATIENCE_S
    while board.run("systemctl is-active edgeveil", any_code=True).stdout.strip() != b"failed":
        assert time.monotonic() < deadline, "it goes on with an old index"
        time.sleep(5)
    status = board.run("systemctl show -P ExecMainStatus edgeveil").stdout.decode().strip()
    said = board.run("journalctl --no-pager -o cat -u edgeveil | grep 'update index' | tail -1").stdout.decode().strip()
    there = json.loads(edgeveil("board", "status", "--on", board.target, *board.options(), "--json"))
    return {"status": status, "said": said, "index_days": there["index"]["age_s"] // 86400}
