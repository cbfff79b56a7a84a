"""helper: and raw: bring whole frames, the newest, and end what they started; the helper reaches nothing else."""

import os
import socket
import stat
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from edgeveil.devices import profiles
from edgeveil.devices.flashing import service_files
from edgeveil.edge_runtime.errors import BadInput, Disconnected, Stalled, Unsupported
from edgeveil.edge_runtime.kinds import needs_daemon
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.sandbox import landlock
from edgeveil.edge_runtime.sources import helper, open_source, raw
from tests.support import network_receivers
from tests.support.broker_services import arguments, finish, start

SHAPE = (4, 6, 1)


def sensor(dtype="uint16"):
    document = {"input": {"kind": "image", "shape": list(SHAPE), "dtype": dtype}, "capture": None}
    return parse(document).input


def frame(number):
    return np.full(SHAPE, number, "<u2")


@pytest.fixture
def program(tmp_path):
    """Writes a program of some lines of Python, which has ``send``."""
    folder = tmp_path / "opt"
    folder.mkdir(mode=0o755)

    def write(*lines):
        path = folder / "sensor"
        head = f"#!{sys.executable}\nimport os, sys, time\n"
        send = "def send(n):\n    os.write(1, n.to_bytes(2, 'little') * 24)\n"
        path.write_text(head + send + "\n".join(lines) + "\n")
        path.chmod(0o755)
        return path

    return write


def test_a_helper_is_told_what_to_write_and_its_end_has_a_reason(program):
    path = program(
        "assert (os.environ['EDGEVEIL_SHAPE'], os.environ['EDGEVEIL_DTYPE']) == ('4x6x1', 'uint16')",
        "assert sys.argv[1:] == ['a b', 'c']",
        "send(7)",
        "time.sleep(0.3)",
        "send(1000)",
        "os.write(1, b'half')",
        "time.sleep(0.3)",
        "sys.exit(3)",
    )
    with open_source(f"helper:{path} 'a b' c", sensor()) as source:
        assert np.array_equal(source.next()._data, frame(7))
        second = source.next()
        assert second._data.dtype == np.dtype("uint16")
        assert np.array_equal(second._data, frame(1000))
        with pytest.raises(Disconnected, match="ended with exit code 3, in a frame: 4 of 48 bytes"):
            source.next()


def test_of_several_frames_the_newest_is_taken_and_equal_ones_are_no_fault(program):
    path = program("for n in range(50): send(n)", "while True:", "    time.sleep(0.05)", "    send(49)")
    with open_source(f"helper:{path}", sensor()) as source:
        assert network_receivers.eventually(lambda: source._frames._there() >= 48 * 50)
        assert [int(source.next()._data[0, 0, 0]) for _ in range(3)] == [49] * 3


def test_a_helper_that_says_nothing_has_stalled_and_is_ended(program, monkeypatch):
    monkeypatch.setattr(raw, "STALL_S", 0.2)
    monkeypatch.setattr(helper, "END_S", 0.3)
    path = program("import signal", "signal.signal(signal.SIGTERM, signal.SIG_IGN)", "time.sleep(60)")
    source = open_source(f"helper:{path}", sensor())
    number = source._program.pid
    with pytest.raises(Stalled):
        source.next()
    source.close()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_a_helper_that_others_can_change_does_not_run(program):
    path = program("open('/proc/self/ran', 'w')")
    for place, mode in ((path, 0o777), (path.parent, 0o777), (path, 0o644)):
        before = stat.S_IMODE(place.stat().st_mode)
        place.chmod(mode)
        with pytest.raises(Unsupported, match=r"changed by other users|may run"):
            open_source(f"helper:{path}", sensor())
        place.chmod(before)
    above = path.parent / "deeper"
    inner = above / "bin"
    inner.mkdir(parents=True)
    (inner / "sensor").write_bytes(path.read_bytes())
    (inner / "sensor").chmod(0o755)
    above.chmod(0o777)  # its owner may put another folder in the place of bin
    (path.parent / "link").symlink_to(inner / "sensor")
    for named in (inner / "sensor", path.parent / "link"):
        with pytest.raises(Unsupported, match="deeper can be changed by other users"):
            open_source(f"helper:{named}", sensor())
    if os.geteuid() == 0:
        os.chown(path, 60001, 60001)
        with pytest.raises(Unsupported, match="changed by other users"):
            open_source(f"helper:{path}", sensor())
    with pytest.raises(Unsupported, match="there is no helper"):
        open_source(f"helper:{path}-none", sensor())


@pytest.mark.parametrize("text", ["helper:bin/sensor", "helper:'", "raw:x", "raw:unix:x"])
def test_what_cannot_be_meant_is_refused(text):
    with pytest.raises(BadInput, match="expected"):
        open_source(text, sensor())


def test_raw_frames_come_from_standard_input_until_its_end(monkeypatch):
    reads, writes = os.pipe()
    monkeypatch.setattr(sys, "stdin", os.fdopen(reads, "rb"))
    with open_source("raw:-", sensor()) as source:
        os.write(writes, frame(1).tobytes())
        assert int(source.next()._data[0, 0, 0]) == 1
        os.write(writes, frame(2).tobytes()[:10])
        threading.Timer(0.1, lambda: (os.write(writes, frame(2).tobytes()[10:]), os.close(writes))).start()
        assert int(source.next()._data[0, 0, 0]) == 2
        assert source.next() is None


def test_raw_frames_come_from_a_socket_that_another_process_asks(tmp_path):
    assert needs_daemon("raw:unix:/run/sensor")
    assert not needs_daemon("raw:-")
    with pytest.raises(Disconnected, match="cannot be reached"):
        open_source(f"raw:unix:{tmp_path}/none", sensor())
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sensor"))
        server.listen()
        with open_source(f"raw:unix:{tmp_path}/sensor", sensor()) as source:
            client, _ = server.accept()
            client.sendall(frame(9).tobytes())
            assert int(source.next()._data[0, 0, 0]) == 9
            client.sendall(b"x")
            client.close()
            with pytest.raises(Disconnected, match="in a frame: 1 of 48 bytes"):
                source.next()


@pytest.fixture
def folder():
    """A folder for a program that every user may run; the process with the helper has an account without rights."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


HELPER = """#!/usr/bin/python3
import os, socket, subprocess, time
def tried(word, what):
    try:
        what()
    except OSError:
        word = "refused " + word
    with socket.socket(socket.AF_UNIX) as told:
        told.connect({place!r})
        told.sendall(word.encode())
tried("network", lambda: socket.create_connection(("127.0.0.1", {port}), 2))
tried("socket", lambda: socket.socket(socket.AF_INET))
tried("file", lambda: open({file!r}, "wb"))
tried("program", lambda: subprocess.run(["/bin/true"], check=True))
tried("user {{}}".format(os.getuid() == 0), lambda: None)
size = eval(os.environ["EDGEVEIL_SHAPE"].replace("x", "*"))
while True:
    os.write(1, os.urandom(size))
    time.sleep(0.02)
"""


@pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock, which refuses files")
def test_in_a_service_the_helper_has_no_network_no_file_and_is_not_root(tiny, tmp_path, folder):
    words = set()

    def hear(server):
        while True:
            client, _ = server.accept()
            words.add(client.makefile("rb").read().decode())

    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as told:
        told.bind(str(folder / "told"))
        (folder / "told").chmod(0o777)
        told.listen()
        threading.Thread(target=hear, args=(told,), daemon=True).start()
        path, shared = folder / "sensor", folder / "shared"
        shared.mkdir()
        shared.chmod(0o777)  # so that Landlock alone refuses a file there
        given = {"port": listener.getsockname()[1], "file": str(shared / "leak"), "place": str(folder / "told")}
        path.write_text(HELPER.format(**given))
        path.chmod(0o755)
        process = start(
            arguments(tiny, f"helper:{path}", f"npz:{tmp_path}/out.npz", frames=12, artefact="tflite-int8"),
            tmp_path,
            "",
        )
        code, document, events = finish(process)
    assert code == 0, events
    assert document["frames_in"] == 12 == document["frames_out"] + sum(document["dropped"].values())
    assert words == {"refused network", "refused socket", "refused file", "program", "user False"}
    assert not (folder / "shared/leak").exists()
    assert {event["raw_on_network"] for event in events if event["event"] == "source"} == {False}


def test_the_unit_of_a_helper_has_its_devices_and_no_network():
    made = service_files.files("/opt/edgeveil", "helper:/opt/sensor", ["none"], profiles.load("raspberry-pi5"), "cpu")
    unit = made[service_files.UNIT_FOLDER + service_files.CAMERA].decode()
    for line in ("PrivateNetwork=yes", "RestrictAddressFamilies=AF_UNIX AF_NETLINK", "PrivateTmp=yes"):
        assert f"\n{line}\n" in unit
    assert "\nDeviceAllow=char-i2c rw\n" in unit
    inside = made[service_files.UNIT_FOLDER + service_files.INSIDE].decode()
    assert "char-i2c" not in inside
