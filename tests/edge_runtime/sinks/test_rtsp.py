"""rtsp: to a real server, GStreamer's, which takes the stream apart and writes its pictures; and what crosses the
network has one size."""

import contextlib
import socket
import subprocess
import threading
import time

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.late_imports import decoded
from edgeveil.edge_runtime.sinks import forms, open_sink, rtsp
from tests.edge_runtime.sinks.test_forms import bundle, record, scenes
from tests.support import network_receivers, programs
from tests.support.checkout import ROOT

pytestmark = pytest.mark.programs
SYSTEM_PYTHON = "/usr/bin/python3"
SHAPE = (44, 60, 1)


@contextlib.contextmanager
def server(folder, *arguments):
    """The port of one that writes to ``folder``."""
    programs.need(*programs.RTSP_SERVER)
    words = [SYSTEM_PYTHON, str(ROOT / "tests/support/rtsp_recorder.py"), str(folder), *map(str, arguments)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def opened(port, query="", said=None, scheme="rtsp", shape=SHAPE):
    manifest = bundle(shape)
    options = {"say": ([] if said is None else said).append, "backoff": {"first_s": 0.05, "most_s": 0.2}}
    return open_sink(f"{scheme}://localhost:{port}/hall{query}", manifest.outputs, manifest, options)


def frame(n, shape=SHAPE):
    picture = np.full(shape, 20 * n % 250, np.uint8)
    picture[: shape[0] // 2] = 128
    return PerturbedFrame(n, {"frame": picture, "label": np.int64(0)}, _PIPELINE, tick_ns=10**18 + n * 10**8)


def pictures(folder):
    return [decoded(path.read_bytes()) for path in sorted(folder.glob("*.jpg"))]


@pytest.mark.parametrize("shape", [SHAPE, (33, 47, 3)])
def test_a_server_gets_every_picture_at_its_size(tmp_path, shape):
    with server(tmp_path) as port:
        sink = opened(port, shape=shape)
        assert network_receivers.eventually(lambda: sink.counts()["connected"] == 1)
        for n in range(12):
            sink.write(frame(n, shape))
            time.sleep(0.03)  # the server drops what comes much before its time
        assert network_receivers.eventually(lambda: len(list(tmp_path.glob("*.jpg"))) >= 12)
        sink.close()
    seen = pictures(tmp_path)
    whole = tuple(-(-size // 8) * 8 for size in shape[:2])
    assert {one.shape[:2] for one in seen} == {whole}
    assert [round(float(one[-4, : shape[1]].mean())) for one in seen] == pytest.approx(
        [20 * n % 250 for n in range(12)], abs=2
    )
    assert [round(float(one[2].mean())) for one in seen] == pytest.approx([128] * 12, abs=2)
    assert sink.counts()["done"] == 12


@pytest.mark.parametrize("login", ["basic", "digest"])
def test_a_login_and_tls(tmp_path, login):
    ca, cert, key = network_receivers.certificates(tmp_path)
    (tmp_path / "both.pem").write_bytes(cert.read_bytes() + key.read_bytes())
    (tmp_path / "secret").write_text("hunter2\n")
    (tmp_path / "wrong").write_text("hunter3\n")
    (tmp_path / "out").mkdir()
    said = []
    with server(tmp_path / "out", login, tmp_path / "both.pem") as port:
        sink = opened(port, f"?ca={ca}&user=board&password_file={tmp_path}/secret", said, "rtsps")
        assert network_receivers.eventually(lambda: sink.counts()["connected"] == 1)
        for n in range(8):
            sink.write(frame(n))
            time.sleep(0.03)
        # GStreamer's TLS keeps the last one until more comes.
        assert network_receivers.eventually(lambda: len(pictures(tmp_path / "out")) >= 7)
        sink.close()
        wrong = opened(port, f"?ca={ca}&user=board&password_file={tmp_path}/wrong", said, "rtsps")
        assert network_receivers.eventually(lambda: any("another name and password" in text for text in said))
        wrong.discard()
        stranger = opened(port, f"?user=board&password_file={tmp_path}/secret", said, "rtsps")
        assert network_receivers.eventually(lambda: any("certificate" in text for text in said))
        stranger.discard()
    assert not any("hunter" in text or "hall" in text for text in said)


def test_it_comes_back_with_the_server_and_old_pictures_do_not(tmp_path):
    said, clock = [], []
    with server(tmp_path / "none") as port:
        pass
    sink = opened(port, said=said)
    sink._spool._clock = lambda: sum(clock)
    sink.write(frame(1))
    assert network_receivers.eventually(lambda: said)
    clock.append(rtsp.RtspSink.keeps_s + 1)
    with socket.create_server(("127.0.0.1", port)) as listening:
        client, _ = listening.accept()
        client.settimeout(5)
        assert client.recv(4096).startswith(b"ANNOUNCE rtsp://localhost:")
        client.close()
    sink.write(frame(2))
    assert sink.counts()["expired"] == 1
    sink.discard()


class Far:
    """A server of a few lines that keeps all bytes behind RECORD, and answers 200 to all."""

    def __init__(self):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port, self.data, self.requests = self.server.getsockname()[1], bytearray(), []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        client, _ = self.server.accept()
        begun = False
        while part := self._read(client):
            if not begun or (part[:1] not in b"$" and part[:7] in (b"OPTIONS", b"TEARDOW")):
                self.requests.append(part)
                begun = part.startswith(b"RECORD")
                client.sendall(
                    b"$\x01\x00\x02ab" * begun + b"RTSP/1.0 200 OK\r\nCSeq: 1\r\nSession: 7;timeout=60\r\n\r\n"
                )
            else:
                self.data += part

    def _read(self, client):
        with contextlib.suppress(OSError):
            return client.recv(2**16)


def test_each_picture_is_as_many_packets_of_the_same_sizes(tmp_path):
    far = Far()
    sink = opened(far.port, shape=(64, 96, 3))
    for n, scene in enumerate(scenes((64, 96, 3))):
        sink.write(PerturbedFrame(n, {"frame": scene, "label": np.int64(0)}, _PIPELINE, tick_ns=n * 10**9))
    assert network_receivers.eventually(lambda: sink.counts()["done"] == 5)
    sink._alive_s -= rtsp.ALIVE_S + 1
    assert network_receivers.eventually(lambda: far.requests[-1].startswith(b"OPTIONS"))
    sink.close()
    assert network_receivers.eventually(lambda: far.requests[-1].startswith(b"TEARDOWN"))
    assert all(b"Session: 7\r\n" in one for one in far.requests[2:])
    sizes, at, stamps = [[]], 0, []
    while at < len(far.data):
        size = int.from_bytes(far.data[at + 2 : at + 4], "big")
        packet = far.data[at + 4 : at + 4 + size]
        sizes[-1].append(size)
        if packet[1] & 0x80:
            stamps.append(int.from_bytes(packet[4:8], "big"))
            sizes.append([])
        at += 4 + size
    assert sizes.pop() == []
    assert [one == sizes[0] for one in sizes] == [True] * 5
    assert [stamp - stamps[0] for stamp in stamps] == [90_000 * n for n in range(5)]


def test_a_jpeg_that_rtp_cannot_carry_is_not_taken_for_one():
    gray = forms.JpegForm(bundle(SHAPE).outputs, bundle(SHAPE)).encode(record(np.zeros(SHAPE, np.uint8)))
    with pytest.raises(ValueError, match="sampling"):
        rtsp.scan_of(gray)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("rtsp://10.0.0.1/hall?user=a&password_file={}/secret", "in the clear: use rtsps://"),
        ("rtsp://localhost/hall?user=a", "both"),
        ("rtsp://localhost", "no path"),
        ("rtsp://localhost/hall?slot=1", "a slot below 1"),
        ("rtsp://a:hunter2@localhost/hall", "a password in an address"),
        ("rtsp://localhost/hall?spool=x", "expected options of"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, text, match):
    (tmp_path / "secret").write_text("hunter2\n")
    with pytest.raises(BadInput, match=match) as refused:
        open_sink(text.format(tmp_path), network_receivers.OUTPUTS)
    assert "hunter2" not in str(refused.value)
