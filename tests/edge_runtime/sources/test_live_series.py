"""A microcontroller at work in the capture loop: an inside without a network, and an outside that sends on ticks."""

import io
import json
import os
import subprocess
import sys
import threading
import time
import tty

import numpy as np

from tests.edge_runtime.sources.series_example import STEPS, example, recording
from tests.edge_runtime.sources.test_serial_port import framed
from tests.support import bundles
from tests.support.checkout import PACKAGES

FRAMES = 10


def test_a_serial_line_leaves_as_perturbed_windows_at_the_ticks(tmp_path):
    tmp_path.chmod(0o755)
    made = bundles.make_bundle(tmp_path, example=example())
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    done = threading.Event()
    writer = threading.Thread(target=_write, args=(ours, done))
    writer.start()
    where = f"serial:{os.ttyname(theirs)},115200,cobs"
    command = [sys.executable, "-m", "edgeveil.edge_runtime", "run", str(made.path), "--trust", str(made.trust)]
    command += ["--source", where, "--sink", f"npz:{tmp_path / 'out.npz'}", "--frames", str(FRAMES), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    try:
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    finally:
        done.set()
        writer.join()
        os.close(ours)
        os.close(theirs)
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert said["frames_in"] == FRAMES
    assert said["frames_out"] + sum(said["dropped"].values()) == FRAMES
    assert said["frames_out"] > 0
    # Where this machine is busy: the line itself lost nothing.
    assert set(said["dropped"]) <= {"newer-frame", "late", "stopped"}
    with np.load(tmp_path / "out.npz") as file:
        assert file["x"].shape[1:] == (STEPS, 2)
        sent = file["x"][-1]
    known = np.load(io.BytesIO(example()[1]["tables/means.npy"]))
    low, high = np.float32([-2.0, -4.0]), np.float32([2.0, 4.0])
    assert np.abs((low + known * (high - low)) - sent).reshape(len(known), -1).max(axis=1).min() < 1e-5


def _write(handle, done):
    """A sample every 20 ms."""
    _, values = recording(500)
    started, number = time.monotonic(), 0
    while not done.is_set():
        os.write(handle, framed(number * 20_000, values[number % len(values)]))
        number += 1
        time.sleep(max(0.0, started + number * 0.02 - time.monotonic()))
