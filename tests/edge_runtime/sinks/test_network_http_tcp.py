"""http:, https: and tcp: against real servers on loopback: every record arrives, whatever the server does meanwhile."""

import contextlib
import http.server
import json
import socket
import struct
import threading
import time

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, PrivacyStop
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.late_imports import decoded
from edgeveil.edge_runtime.machine import clock_word
from edgeveil.edge_runtime.sinks import http as http_sink
from edgeveil.edge_runtime.sinks import open_sink, open_sinks, wire
from tests.support import network_receivers

FORM = wire.Format(network_receivers.OUTPUTS, network_receivers.MANIFEST)
FAST = {"backoff": {"first_s": 0.02, "most_s": 0.1}}


def opened(text, said=None):
    said = [] if said is None else said
    return open_sink(text, network_receivers.OUTPUTS, network_receivers.MANIFEST, {"say": said.append, **FAST})


class Server:
    """Keeps what is posted; answers what ``answers`` says for the first records, then 204."""

    def __init__(self, *answers, protocol="HTTP/1.1", tls=None):
        outer = self
        self.records, self.documents, self.headers, self.answers = [], [], [], list(answers)
        self.bodies = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = protocol

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.headers.append(dict(self.headers))
                outer.bodies.append(body)
                code = 204
                if self.headers["Content-Type"].endswith("json"):
                    outer.documents.append(json.loads(body))
                else:
                    code = outer.answers.pop(0) if outer.answers else 204
                    if code == 0:
                        self.connection.shutdown(socket.SHUT_RDWR)
                        self.close_connection = True
                        return
                    if code == 204 and self.headers["Content-Type"] == http_sink.RECORD:
                        outer.records.append(FORM.decode(body))
                self.send_response(code)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls:
            import ssl

            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.parametrize("protocol", ["HTTP/1.0", "HTTP/1.1"])
def test_every_record_is_posted_once(protocol):
    server = Server(protocol=protocol)
    sink = opened(f"http://127.0.0.1:{server.port}/frames")
    for n in range(30):
        sink.write(network_receivers.frame(n))
    sink.close()
    assert [record.index for record in server.records] == list(range(30))
    assert FORM.document in server.documents
    assert {"state": "running", "since_ns": None, "clock": clock_word()} in server.documents
    server.close()


def test_what_a_server_cannot_take_now_comes_again_and_what_it_never_will_does_not():
    server = Server(204, 503, 0, 429, 413, 204)
    sink = opened(f"http://127.0.0.1:{server.port}/")
    for n in range(6):
        sink.write(network_receivers.frame(n))
    assert network_receivers.eventually(lambda: sink.counts()["waiting"] == 0)
    # 0; 1 refused, cut off, refused, and then for ever; the rest.
    assert [record.index for record in server.records] == [0, 2, 3, 4, 5]
    assert (sink.counts()["done"], sink.counts()["lost"]) == (5, 1)
    sink.close()
    server.close()


def test_https_checks_the_certificate_and_sends_the_authorization(tmp_path):
    ca, cert, key = network_receivers.certificates(tmp_path)
    (tmp_path / "secret").write_text("Bearer of tidings\n")
    server = Server(tls=(cert, key))
    said = []
    sink = opened(f"https://localhost:{server.port}/?ca={ca}&authorization_file={tmp_path}/secret", said)
    stranger = opened(f"https://localhost:{server.port}/", said)
    sink.write(network_receivers.frame(3))
    stranger.write(network_receivers.frame(4))
    assert network_receivers.eventually(lambda: len(server.records) == 1 and len(said) == 1)
    assert server.headers[-1]["Authorization"] == "Bearer of tidings"
    assert "certificate" in said[0].lower()
    assert server.records[0].index == 3
    sink.close()
    stranger.close()
    assert not any("tidings" in text for text in said)
    server.close()


def test_a_webhook_gets_json_alone_and_all_of_one_size():
    server = Server()
    sink = opened(f"http://127.0.0.1:{server.port}/hook?as=json")
    for n in range(12):
        sink.write(network_receivers.frame(n * 10**6))
    assert network_receivers.eventually(lambda: len(server.documents) == 13)
    sink.announce("degraded", 5)
    assert network_receivers.eventually(lambda: len(server.documents) == 14)
    sink.close()
    assert {one["Content-Type"] for one in server.headers} == {"application/json"}
    frames = [one for one in server.documents if one["kind"] == "edgeveil-frame"]
    assert [one["tick"] for one in frames] == [n * 10**6 for n in range(12)]
    assert frames[1]["outputs"]["frame"] == network_receivers.frame(10**6).outputs["frame"].tolist()
    assert {one["names"]["label"] for one in frames} == {"empty"}
    assert len({len(body) for body in server.bodies if b"edgeveil-frame" in body}) == 1
    states = [one["state"] for one in server.documents if one["kind"] == "edgeveil-status"]
    assert states == ["running", "degraded"]
    server.close()


@pytest.mark.parametrize("form", ["png", "jpeg"])
def test_a_server_of_pictures_gets_pictures_alone(form):
    server = Server()
    sink = opened(f"http://127.0.0.1:{server.port}/?as={form}")
    sink.write(network_receivers.frame(200))
    assert network_receivers.eventually(lambda: len(server.bodies) == 1)
    sink.announce("degraded", 5)
    sink.write(network_receivers.frame(100, slot=2))
    assert network_receivers.eventually(lambda: len(server.bodies) == 2)
    sink.close()
    assert {one["Content-Type"] for one in server.headers} == {"image/" + form}
    assert [(one["X-EdgeVeil-Slot"], one["X-EdgeVeil-State"]) for one in server.headers] == [
        ("0", "running"),
        ("2", "degraded"),
    ]
    assert [int(decoded(body).mean()) for body in server.bodies] == [200, 100]
    assert len(server.bodies[0]) == len(server.bodies[1])
    server.close()


def received(connection):
    """The messages of one connection until it ends."""
    file, messages = connection.makefile("rb"), []
    while len(head := file.read(4)) == 4:
        messages.append(file.read(struct.unpack(">I", head)[0]))
    return messages


def test_tcp_tells_its_format_and_then_sends_records():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        sink = opened(f"tcp://127.0.0.1:{server.getsockname()[1]}")
        for n in range(20):
            sink.write(network_receivers.frame(n))
        connection, _ = server.accept()
        sink.announce("degraded", 5)
        assert network_receivers.eventually(lambda: sink.counts()["done"] == 20)
        sink.close()
        messages = received(connection)
    assert json.loads(messages[0]) == FORM.document
    records = [FORM.decode(message).index for message in messages if message[:1] != b"{"]
    assert records == list(range(20))
    states = [json.loads(message) for message in messages[1:] if message[:1] == b"{"]
    assert states[-1] == {"kind": "edgeveil-status", "state": "degraded", "since_ns": 5, "clock": clock_word()}


def test_tcp_comes_back_when_the_far_side_does():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        sink = opened(f"tcp://127.0.0.1:{server.getsockname()[1]}")
        first, _ = server.accept()
        sink.write(network_receivers.frame(0))
        assert network_receivers.eventually(lambda: sink.counts()["done"] == 1)
        first.close()
        for n in range(1, 10):
            sink.write(network_receivers.frame(n))
            time.sleep(0.01)
        second, _ = server.accept()
        assert network_receivers.eventually(lambda: sink.counts()["waiting"] == 0)
        sink.close()
        messages = received(second)
    assert json.loads(messages[0])["kind"] == "edgeveil-format"
    assert FORM.decode(messages[-1]).index == 9


def test_a_sink_takes_no_raw_frame():
    sink = opened(f"tcp://127.0.0.1:{network_receivers.free_port()}")
    with pytest.raises(PrivacyStop):
        sink.write(RawFrame(network_receivers.frame(0).data, 0))
    assert sink.counts()["put"] == 0
    sink.discard()


def test_several_sinks_each_get_every_frame(tmp_path):
    server = Server()
    texts = [f"http://127.0.0.1:{server.port}/", f"npz:{tmp_path}/out.npz"]
    sink = open_sinks(texts, network_receivers.OUTPUTS, network_receivers.MANIFEST, FAST)
    assert sink.live
    for n in range(5):
        sink.write(network_receivers.frame(n))
    sink.close()
    assert [record.index for record in server.records] == list(range(5))
    assert np.load(tmp_path / "out.npz")["index"].tolist() == list(range(5))
    server.close()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("tcp://localhost", "no port"),
        ("tcp://localhost:80/path", "no port, or a path"),
        ("http://:80/", "no host"),
        ("http://example.org/a b", "printable ASCII"),
        ("http://example.org/?authorization_file={}/secret", "in the clear"),
        ("http://me:hunter2@example.org/", "process lists"),
        ("http://localhost/?ca=x", "expected options"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, text, match):
    (tmp_path / "secret").write_text("hunter2\n")
    with pytest.raises(BadInput, match=match) as refused:
        open_sink(text.format(tmp_path), network_receivers.OUTPUTS)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("texts", "match"), [(["tcp://localhost:80", "tcp://localhost:80"], "different"), ([], "one sink or more")]
)
def test_sinks_that_are_not_one_each_are_refused(texts, match):
    with pytest.raises(BadInput, match=match):
        open_sinks(texts, network_receivers.OUTPUTS)


def test_the_path_of_a_webhook_is_its_password_and_is_shown_nowhere():
    """Two of one server are told apart by their places."""
    uris = ["http://127.0.0.1:9/services/topsecret", "http://127.0.0.1:9/services/secret-too", "tcp://127.0.0.1:9"]
    sinks = open_sinks(uris, network_receivers.OUTPUTS, network_receivers.MANIFEST)
    names = list(sinks.counts_by_sink())
    sinks.discard()
    assert names == ["http://127.0.0.1:9/... (1)", "http://127.0.0.1:9/... (2)", "tcp://127.0.0.1:9"]
    with pytest.raises(BadInput, match="all of them different") as refused:
        open_sinks([uris[0], uris[0]], network_receivers.OUTPUTS, network_receivers.MANIFEST)
    assert "secret" not in str(refused.value)
