"""A camera whose frames a daemon has, at a socket: a process of its own asks, and neither it nor the inside can send.

A daemon of this test stands in for nvargus-daemon, and a source that asks it for GStreamer's element.
"""

import os
import socket
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from edgeveil.devices import profiles
from edgeveil.devices.flashing import service_files
from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.kinds import needs_daemon
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.outside.process_table import process_table
from tests.support import tiny_models
from tests.support.broker_services import arguments, finish, start

SOURCE = "gst:nvarguscamerasrc ! nvvidconv"
MANIFEST = parse({"input": {"kind": "image", "shape": [2, 2, 1], "dtype": "uint8"}, "capture": None})


# In the outside: the feed's GStreamer is one that asks the daemon at {place}, and tries to get out.
STAND_IN = """
from tests.support import live_fakes
from edgeveil.edge_runtime.outside import process_table
inner = {inner!r}
process_table.command = lambda module: live_fakes.command(module, inner if module == "sources.feeding" else "")
"""
INNER = """
import encodings.idna, os, socket
import numpy as np
from edgeveil.edge_runtime.sources.base import Camera
from edgeveil.edge_runtime.sources import gst
def reached(name, attempt):
    try:
        attempt()
        daemon(("reached " + name).encode())
    except OSError as error:
        daemon(("refused " + name).encode())
def daemon(word):
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect({place!r})
        asked.sendall(word + b"\\n")
        return asked.makefile("rb").read()
class Argus(Camera):
    tried = False
    def __init__(self, where, spec):
        super().__init__("argus", spec)
        self._ahead = self._read()
    def _open(self, where):
        pass
    def _read(self):
        if not Argus.tried:
            Argus.tried = True
            reached("network", lambda: socket.create_connection(("127.0.0.1", {port}), 2))
            reached("file", lambda: open({file!r}, "wb").close())
            reached("program", lambda: os.execv("/bin/true", ["true"]))
        return np.frombuffer(daemon(b"frame"), np.uint8).reshape(self._spec["shape"]).copy()
gst.GstSource = Argus
gst.load = lambda: None
"""


class Daemon(threading.Thread):
    """Answers ``frame`` with a frame of noise, and writes down every other word."""

    def __init__(self, place):
        super().__init__(daemon=True)
        self.words, self.frames = [], 0
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(place))
        os.chmod(place, 0o777)  # noqa: S103, PTH101 - any user may ask
        self._server.listen()
        self.start()

    def run(self):
        rng = np.random.default_rng(0)
        while True:
            asked, _ = self._server.accept()
            with asked:
                word = asked.makefile("rb").readline().strip().decode()
                if word == "frame":
                    self.frames += 1
                    asked.sendall(rng.integers(0, 256, tiny_models.SHAPE).astype(np.uint8).tobytes())
                else:
                    self.words.append(word)


def test_who_needs_a_daemon():
    assert needs_daemon(SOURCE)
    assert needs_daemon("gst:nvarguscamerasrc sensor-id=0 ! nvvidconv")
    assert not needs_daemon("gst:videotestsrc")
    assert not needs_daemon("images:/nvarguscamerasrc")


def test_the_inside_has_no_socket_and_the_process_that_has_one_no_network():
    settings = config.merged({"bundle": "b", "trust": "t", "sink": ["npz:x"]}, {"source": SOURCE})
    feed, inside = process_table(settings, MANIFEST)
    assert "sources.feeding" in feed.command[-1]
    assert (feed.network, inside.network) == (False, False)
    assert set(feed.settings) == {"source", "sensor"}, "it gets no sink and no bundle"
    plain = config.merged({"bundle": "b", "trust": "t", "sink": ["npz:x"]}, {"source": "gst:videotestsrc"})
    assert len(process_table(plain, MANIFEST)) == 1


@pytest.fixture
def folder():
    """A folder that every user may write to: the process that asks runs as nobody."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def test_frames_come_from_the_daemon_and_the_process_that_asks_reaches_nothing_else(tiny, tmp_path, folder):
    daemon = Daemon(folder / "argus_socket")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        words = {"place": str(folder / "argus_socket"), "port": listener.getsockname()[1], "file": str(folder / "leak")}
        first = STAND_IN.format(inner=INNER.format(**words))
        given = {"frames": 20, "artefact": "tflite-int8"}
        process = start(arguments(tiny, SOURCE, f"npz:{tmp_path}/out.npz", **given), tmp_path, first)
        code, document, events = finish(process)
    assert code == 0, events
    assert document["frames_in"] == 20 == document["frames_out"] + sum(document["dropped"].values())
    assert daemon.frames >= 20
    # A loaded machine starts the fetcher more than once; each start tries the three and is an event.
    assert set(daemon.words) == {"refused file", "refused network", "refused program"}
    assert not (folder / "leak").exists()
    assert {event["raw_on_network"] for event in events if event["event"] == "source"} == {False}
    *_, ready = [event for event in events if event["event"] == "ready"]
    assert "network namespace" in ready["isolation"] or "seccomp" in ready["isolation"]


@pytest.mark.parametrize("board", ["jetson-nano", "jetson-orin-nano"])
def test_a_service_of_units_has_one_that_asks_and_has_no_network(board):
    profile = profiles.load(board)
    made = service_files.files("/opt/edgeveil", SOURCE, ["none"], profile, "tensorrt")
    unit = made[service_files.UNIT_FOLDER + service_files.CAMERA].decode()
    for line in ("PrivateNetwork=yes", "RestrictAddressFamilies=AF_UNIX AF_NETLINK", "PrivateTmp=no"):
        assert f"\n{line}\n" in unit
    assert f"\nDeviceAllow={profile.accelerator_path} rw\n" in unit
    assert "User=edgeveil-camera" in unit
    inside = made[service_files.UNIT_FOLDER + service_files.INSIDE].decode()
    assert "CacheDirectory=edgeveil-engines" in inside, "GStreamer writes files, and is in another process"
    assert "char-video4linux" not in inside
