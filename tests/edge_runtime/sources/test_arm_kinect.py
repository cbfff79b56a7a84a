"""A Kinect v1 on an emulated ARM board: the same ctypes code, Debian's arm64 libfreenect, a recording in its place.

The board is the tree of ``scripts/emulated_device``, run by qemu's user emulation: right numbers, no speed.
"""

import json
import shutil
import subprocess

import numpy as np
import pytest

from tests.support import programs
from tests.support.boards import emulated_boards, fakenect_recording
from tests.support.checkout import ROOT

LIBRARIES = "usr/lib/aarch64-linux-gnu"

pytestmark = [pytest.mark.boards, pytest.mark.cameras, pytest.mark.slow, pytest.mark.programs]


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """The root folder of a small arm64 system with qemu inside."""
    root = tmp_path_factory.mktemp("board") / "root"
    subprocess.run(["cp", "-a", "--reflink=auto", str(emulated_boards.tree()), str(root)], check=True, timeout=120)
    shutil.copy(programs.need("qemu-aarch64-static"), root)
    return root


@pytest.mark.nightly  # by day on this machine: test_real_cameras.py
def test_a_kinect_v1_is_read_on_arm_by_the_same_code(board):
    shutil.copytree(ROOT / "edge_runtime", board / "opt/edge/edgeveil/edge_runtime")
    shutil.copy(ROOT / "tests/support/boards/camera_probe.py", board / "opt/edge")
    depth = np.full((480, 640), 3000.0)
    depth[190:290, 200:300] = 1500.0
    fakenect_recording.write(board / "opt/recording", [depth + n % 2 for n in range(6)])
    environment = {
        "QEMU_CPU": "cortex-a53",
        "FAKENECT_PATH": "/opt/recording",
        "LD_LIBRARY_PATH": f"/{LIBRARIES}/fakenect",
        "PYTHONPATH": "/opt/edge",
        "PATH": "/usr/bin:/bin",
        "OPENBLAS_NUM_THREADS": "1",
    }
    sensor = json.dumps({"shape": [480, 640], "dtype": "uint16", "unit_mm": 1.0})
    command = ["/usr/sbin/chroot", str(board), "/qemu-aarch64-static", "/usr/bin/python3", "/opt/edge/camera_probe.py"]
    done = subprocess.run(
        [*command, "kinect:", sensor, "5"], env=environment, capture_output=True, text=True, timeout=120
    )
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["error"] is None, done.stderr
    assert [frame["index"] for frame in found["frames"]] == list(range(5))
    for frame in found["frames"]:
        assert frame["shape"] == [480, 640, 1]
        assert abs(frame["least"] - 1500) <= 5
        assert abs(frame["most"] - 3000) <= 14
