"""What arrives at a receiver, by a real clock: as many records, of one size, as far apart, whatever the camera does."""

import socket
import struct
import threading
import time

import numpy as np
import pytest

from tests.support import bundles, live_fakes
from tests.support.broker_services import arguments, finish, start

TICK_S = 0.05
WAYS = {
    "a good camera": "fps=60",
    "a slow camera": "fps=7",
    "unplugged and stalled": "fps=60&disconnect=40&stall=90",
    "a crash": "fps=60&crash=60",
    "a hang": "fps=60&hang=60",
}


class Receiver:
    """The far side of a TCP sink: the size and the time of every record."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.came, self.told = [], []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        file = self.socket.accept()[0].makefile("rb")
        while head := file.read(4):
            data = file.read(struct.unpack(">I", head)[0])
            if data.startswith(b"{"):
                self.told.append(data)
            else:
                self.came.append((len(data), time.monotonic()))


@pytest.mark.slow
def test_a_receiver_cannot_tell_a_fault_from_the_schedule(tmp_path):
    made = bundles.make_bundle(tmp_path / "b", example=live_fakes.wide_example())
    runs = {}
    for name, way in WAYS.items():
        folder, receiver = tmp_path / name.replace(" ", "-"), Receiver()
        folder.mkdir()
        words = arguments(made, f"fake:0?{way}", f"tcp://127.0.0.1:{receiver.port}", fps=1 / TICK_S, duration=5)
        runs[name] = receiver, start(words, folder)
    found = {}
    for name, (receiver, process) in runs.items():
        code, document, events = finish(process)
        assert code == 0, events
        assert document["frames_in"] == document["frames_out"] + sum(document["dropped"].values())
        sizes, times = zip(*receiver.came, strict=True)
        found[name] = len(sizes), set(sizes), np.diff(times)
        assert not any(b"degraded" in one for one in receiver.told)  # a short fault is not told
    counts = {count for count, _, _ in found.values()}
    assert max(counts) - min(counts) <= 1, found
    assert min(counts) >= 5 / TICK_S - 1
    assert len(set.union(*(sizes for _, sizes, _ in found.values()))) == 1
    for name, (_, _, gaps) in found.items():
        assert abs(np.median(gaps) - TICK_S) < TICK_S / 5, name
        assert np.mean(np.abs(gaps - TICK_S) < TICK_S / 2) > 0.8, name
