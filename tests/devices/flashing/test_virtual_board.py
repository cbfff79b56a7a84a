"""A whole virtual board with Debian's kernel: V4L2's own test camera (vivid) through the installed runtime."""

import io
import json
import os
import sys

import numpy as np
import pytest

from edgeveil.trainer.cli.main import main
from tests.support import tiny_models
from tests.support.boards import emulated_boards
from tests.support.checkout import ROOT
from tests.support.watching_bundle import watching_bundle

pytestmark = [pytest.mark.boards, pytest.mark.slow, pytest.mark.programs]

FRAMES = 30
PATTERNS = {"black": 5, "red": 7, "blue": 9}  # of vivid's control test_pattern
WHEELS = (emulated_boards.LITERT, emulated_boards.OPENCV)


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
