"""A whole virtual board with Debian's kernel: V4L2's own test camera (vivid) through the installed runtime; and what is
left on it after a service ran there and ``board remove``: nothing, file by file."""

import io
import json
import os
import shlex
import sys

import numpy as np
import pytest

from edgeveil.trainer.cli.main import main
from tests.support import tiny_models
from tests.support.boards import board_service, emulated_boards
from tests.support.checkout import ROOT
from tests.support.watching_bundle import watching_bundle

pytestmark = [pytest.mark.boards, pytest.mark.slow, pytest.mark.programs]

FRAMES = 30
PATTERNS = {"black": 5, "red": 7, "blue": 9}  # of vivid's control test_pattern
WHEELS = (emulated_boards.LITERT, emulated_boards.OPENCV)
# What any use of a board changes, so that it is no sign of a flash.
CHANGES = {
    "/var/log/journal": "systemd's journal",
    "/var/log/(btmp|lastlog|wtmp)": "logins, by each ssh session",
    "/var/lib/systemd/(random-seed|timesync|timers|linger|coredump|catalog).*": "systemd's own state, at each boot",
    "/var/cache/apt": "apt's cache",
    "/var/lib/apt/lists": "apt's cache",
    "/root/(list_files|ask)[.]py": "this test's own programs",
    "/usr/lib/python3.*/__pycache__": "this image's modules are not compiled; root's Python does it",
    # useradd and userdel each keep the file before: after the last of them it has one user of EdgeVeil's.
    "/etc/(passwd|group|shadow|gshadow)-": "copies by useradd and userdel of the file before, with its modes",
}
UNITS = "systemctl list-unit-files --no-legend --no-pager --plain"
TIMERS = "systemctl list-units --type=timer --all --no-legend --no-pager --plain"


@pytest.fixture(scope="module")
def board():
    if "EDGEVEIL_VIRTUAL_BOARD" not in os.environ:
        pytest.skip("THE VIRTUAL BOARD WAS NOT BOOTED: it takes minutes; set EDGEVEIL_VIRTUAL_BOARD=1 for it")
    with emulated_boards.board("vm") as up:
        yield up


def _edgeveil(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["edgeveil", *(str(a) for a in arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0


def _middle(board, pattern):
    """Red, green, blue in the middle of what the source reads of a picture in one colour."""
    board.put((ROOT / "tests/support/boards/camera_probe.py").read_bytes(), "/root/camera_probe.py")
    board.run(f"v4l2-ctl -d /dev/video0 -c osd_text_mode=1 -c test_pattern={pattern}")
    sensor = json.dumps({"shape": [180, 320, 3], "dtype": "uint8", "unit_mm": None})
    path = "PYTHONPATH=/opt/edgeveil/current/edgeveil-edge.pyz:/opt/edgeveil/site"
    done = board.run(f"cd /root && {path} timeout 60 python3 camera_probe.py camera:0 '{sensor}' 2")
    found = json.loads(done.stdout.decode().strip().splitlines()[-1])
    assert found["error"] is None
    return found["frames"][-1]["middle"]


def _there(board):
    """Every file of the root file system but ``CHANGES``, users, groups, unit files and timers."""
    board.put((ROOT / "tests/support/boards/list_files.py").read_bytes(), "/root/list_files.py")
    listed = board.run(f"python3 /root/list_files.py {shlex.quote(json.dumps(list(CHANGES)))}", timeout_s=1800).stdout
    ask = {"users": "getent passwd", "groups": "getent group", "units": UNITS, "timers": TIMERS}
    lines = {name: board.run(command).stdout.decode().splitlines() for name, command in ask.items()}
    assert all(lines.values()), "a command that lists nothing compares nothing"
    names = {name: [line.split()[0] for line in found] for name, found in lines.items()}
    return {"files": json.loads(listed), **{name: dict.fromkeys(found, True) for name, found in names.items()}}


def _apart(before, after):
    """By kind, what is new, gone or other after."""
    return {
        kind: {
            path: [before[kind].get(path), after[kind].get(path)]
            for path in sorted({*before[kind], *after[kind]})
            if before[kind].get(path) != after[kind].get(path)
        }
        for kind in before
    }


def test_a_board_that_a_service_ran_on_is_as_before_its_first_flash_once_removed(board, tmp_path, monkeypatch):
    """Before the other test, which leaves a bundle there. As pi, by sudo: two releases, a rollback, then remove."""
    owner, *releases = watching_bundle(tmp_path, "first", "second")
    board.run("systemctl is-system-running --wait || true", timeout_s=180)
    board.run("modprobe vivid && udevadm settle && test -c /dev/video0")
    pinned = emulated_boards.wheels(*WHEELS)
    _edgeveil(monkeypatch, "board", "wheels", "raspberry-pi-cpu", *pinned, "--out", tmp_path / "wheels")
    board.run("mkdir -p /opt")  # each Debian has it, but this image
    before = _there(board)

    how = ["--on", board.as_pi, "--for", "raspberry-pi-cpu", "--trust", owner, "--wheels", tmp_path / "wheels"]
    sinks = ["--sink", "npz:/var/lib/edgeveil/hall?rotate=1MB,20s&keep=3", "--sink", "preview:8080"]
    for release in releases:
        _edgeveil(monkeypatch, "flash", release.path, *how, "--source", "camera:0", *sinks, *board.options())
        assert board_service.healthy(board, more_than=20)["bundle"] == release.path.stem
    _edgeveil(monkeypatch, "board", "rollback", "--on", board.as_pi, *board.options())
    board_service.healthy(board)
    during = _there(board)
    removed = _apart(before, during)
    assert {"/opt/edgeveil/trust/trust.json", "/etc/edgeveil/edge.json"} <= set(removed["files"])
    assert any(path.startswith("/var/lib/edgeveil/hall/part-") for path in removed["files"])
    assert len([line for line in removed["users"] if "edgeveil" in line]) == 2

    _edgeveil(monkeypatch, "board", "remove", "--yes", "--on", board.as_pi, *board.options())
    left = _apart(before, _there(board))
    elsewhere = (
        "find /run /dev/shm /tmp /sys/fs/cgroup -xdev -name '*[e]dgeveil*' 2>/dev/null; ps -eo args | grep '[e]dgeveil'"
    )
    beyond = board.run(elsewhere, any_code=True).stdout.decode().splitlines()
    emulated_boards.record(
        "removal.json",
        {
            "not compared": CHANGES,
            "compared": {kind: len(found) for kind, found in before.items()},
            "new or other while it ran": {kind: len(found) for kind, found in removed.items()},
            "new or other after board remove": left,
            "in /run, /dev/shm, /tmp, control groups and processes": beyond,
        },
    )
    assert left == {kind: {} for kind in left}
    assert beyond == []


def test_a_v4l2_camera_is_perturbed_by_the_installed_runtime(board, tmp_path, monkeypatch):
    owner, bundle = watching_bundle(tmp_path, "watching")
    kernel = board.run("uname -r").stdout.decode().strip()
    board.run("systemctl is-system-running --wait || true", timeout_s=180)
    board.run("modprobe vivid && udevadm settle && test -c /dev/video0")

    _edgeveil(
        monkeypatch,
        "board",
        "wheels",
        "raspberry-pi-cpu",
        *emulated_boards.wheels(*WHEELS),
        "--out",
        tmp_path / "wheels",
    )
    how = ["--for", "raspberry-pi-cpu", "--trust", owner, "--wheels", tmp_path / "wheels", "--no-service"]
    _edgeveil(monkeypatch, "flash", bundle.path, "--on", board.target, *how, *board.options())

    edge = "cd /root && timeout 200 python3 /opt/edgeveil/current/edgeveil-edge.pyz"
    board.put(bundle.path.read_bytes(), "/root/watching.veil")
    run = "run watching.veil --trust /opt/edgeveil/trust --source camera:0 --sink npz:perturbed.npz --json"
    said = board.run(f"{edge} {run} --frames {FRAMES} --health off", timeout_s=240)
    report = json.loads(said.stdout)
    with np.load(io.BytesIO(board.run("cat /root/perturbed.npz").stdout)) as perturbed:
        frames = perturbed["x"]
    # Ticks leave at 5 a second whatever comes: a tick without a new picture is the one before, again.
    assert report["frames_in"] == FRAMES == report["frames_out"] + sum(report["dropped"].values())
    assert frames.shape == (len(frames), *tiny_models.SHAPE)
    assert len(frames) >= report["frames_out"] > 1
    assert "isolation=network namespace and seccomp filter" in said.stderr.decode()
    colours = {name: _middle(board, number) for name, number in PATTERNS.items()}
    assert colours == {"black": [0, 0, 0], "red": [255, 0, 0], "blue": [0, 0, 255]}

    ask = "import sys, numpy, cv2, ai_edge_litert as litert\nprint(sys.version.split()[0])\n"
    ask += "for module in (numpy, cv2, litert): print(module.__version__)\n"
    found = board.run("PYTHONPATH=/opt/edgeveil/site python3 -", data=ask.encode()).stdout.decode().split()
    names = ("python", "numpy", "opencv", "ai-edge-litert")
    emulated_boards.record(
        "vivid.json",
        {
            "kernel": kernel,
            "camera": board.run("v4l2-ctl -d /dev/video0 --info | grep -m1 'Card type'")
            .stdout.decode()
            .split(":")[1]
            .strip(),
            "versions": dict(zip(names, found, strict=True)),
            "command": f"edgeveil-edge {run} --frames {FRAMES} --health off",
            "written": len(frames),
            "middle of a picture in one colour": colours,
            "said": said.stderr.decode().splitlines(),
            "printed": report,
        },
    )
