"""nats: and natss: against a real nats-server: nothing lost, nothing stored twice, nothing secret shown or sent in the
clear."""

import asyncio
import json
import socket
import subprocess
import threading

import nats
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.machine import clock_word
from edgeveil.edge_runtime.sinks import open_sink, wire
from tests.support import network_receivers, programs

pytestmark = pytest.mark.programs
FORM = wire.Format(network_receivers.OUTPUTS, network_receivers.MANIFEST)


class Server:
    """A nats-server on a port of its own, with JetStream."""

    def __init__(self, folder, text=""):
        self.port, self._file = network_receivers.free_port(), folder / "nats.conf"
        self._file.write_text(f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{folder}/js" }}\n{text}\n')
        self.start()

    def start(self):
        words = [programs.need("nats-server"), "-c", str(self._file)]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert network_receivers.eventually(self._listens)

    def _listens(self):
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self):
        self._process.kill()
        self._process.wait()


@pytest.fixture
def server(tmp_path):
    programs.need("nats-server")
    started = Server(tmp_path)
    yield started
    started.kill()


class Listener:
    """A subscriber in a thread, which keeps every message of the subjects."""

    def __init__(self, port, subject="hall.>", **login):
        self.messages, self._end = [], threading.Event()
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._work(port, subject, login, ready)))
        self._thread.start()
        assert ready.wait(5)

    async def _work(self, port, subject, login, ready):
        client = await nats.connect(f"nats://127.0.0.1:{port}", **login)

        async def keep(message):
            self.messages.append((message.subject, message.data))

        await client.subscribe(subject, cb=keep)
        await client.flush()
        ready.set()
        while not self._end.is_set():
            await asyncio.sleep(0.02)
        await client.close()

    def on(self, subject):
        return [data for name, data in list(self.messages) if name == subject]

    def close(self):
        self._end.set()
        self._thread.join()


def opened(port, query="", said=None, scheme="nats", host="localhost"):
    options = {"say": ([] if said is None else said).append, "backoff": {"first_s": 0.05, "most_s": 0.2}}
    uri = f"{scheme}://{host}:{port}/hall.door{query}"
    return open_sink(uri, network_receivers.OUTPUTS, network_receivers.MANIFEST, options)


def streamed(port, work):
    """What ``work`` of a JetStream gives."""

    async def run():
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        try:
            return await work(client.jetstream())
        finally:
            await client.close()

    return asyncio.run(run())


def test_records_format_and_status_arrive(server):
    listener = Listener(server.port)
    sink = opened(server.port)
    for n in range(50):
        sink.write(network_receivers.frame(n))
    assert network_receivers.eventually(lambda: len(listener.on("hall.door")) == 50)
    sink.announce("degraded", 123)
    assert network_receivers.eventually(lambda: len(listener.on("hall.door.status")) == 2)
    assert sink.counts()["done"] == 50
    sink.close()
    assert [FORM.decode(data).index for data in listener.on("hall.door")] == list(range(50))
    assert json.loads(listener.on("hall.door.format")[0]) == FORM.document
    assert json.loads(listener.on("hall.door.status")[1]) == {
        "state": "degraded",
        "since_ns": 123,
        "clock": clock_word(),
    }
    listener.close()


def test_a_stream_stores_each_record_once_though_the_server_is_killed(server):
    streamed(server.port, lambda js: js.add_stream(name="HALL", subjects=["hall.>"]))
    said = []
    sink = opened(server.port, "?stream=HALL&as=json", said)
    for n in range(20):
        sink.write(network_receivers.frame(n))
    assert network_receivers.eventually(lambda: sink.counts()["waiting"] == 0)
    server.kill()
    for n in range(20, 40):
        sink.write(network_receivers.frame(n))
    assert network_receivers.eventually(lambda: sink.counts()["connected"] == 0)
    server.start()
    assert network_receivers.eventually(lambda: sink.counts()["waiting"] == 0)
    assert (sink.counts()["done"], sink.counts()["lost"], sink.counts()["connections"]) == (40, 0, 2)
    sink.close()

    async def stored(js):
        last = (await js.stream_info("HALL")).state.last_seq
        return [await js.get_msg("HALL", seq) for seq in range(1, last + 1)]

    frames = [json.loads(one.data) for one in streamed(server.port, stored) if one.subject == "hall.door"]
    assert [one["tick"] for one in frames] == list(range(40))
    assert any("connection is tried again" in text for text in said)


def test_a_record_that_is_sent_again_is_stored_once(server):
    streamed(server.port, lambda js: js.add_stream(name="HALL", subjects=["hall.>"]))
    sink = opened(server.port, "?stream=HALL")
    sink.write(network_receivers.frame(0))
    assert network_receivers.eventually(lambda: sink.counts()["done"] == 1)
    record = FORM.encode(network_receivers.frame(0), sink._spool.stream, 0)
    sink.close()
    again = opened(server.port, "?stream=HALL")
    again._spool.put(record)  # as after a connection that broke before the answer came
    assert network_receivers.eventually(lambda: again.counts()["done"] == 1)
    again.close()
    info = streamed(server.port, lambda js: js.stream_info("HALL", subjects_filter="hall.door"))
    assert info.state.subjects == {"hall.door": 1}


def test_without_its_stream_records_wait_and_the_reason_is_said(server):
    said = []
    sink = opened(server.port, "?stream=HALL", said)
    sink.write(network_receivers.frame(0))
    assert network_receivers.eventually(lambda: said)
    assert "no stream of JetStream takes hall.door" in said[0]
    streamed(server.port, lambda js: js.add_stream(name="HALL", subjects=["hall.>"]))
    assert network_receivers.eventually(lambda: sink.counts()["done"] == 1)
    sink.close()


def test_a_subject_that_is_denied_is_said(tmp_path):
    rule = '{user: board, password: hunter2, permissions: {publish: {deny: "hall.door"}}}'
    server = Server(tmp_path, f"authorization {{ users = [{rule}] }}")
    (tmp_path / "secret").write_text("hunter2\n")
    said = []
    sink = opened(server.port, f"?user=board&password_file={tmp_path}/secret", said)
    sink.write(network_receivers.frame(0))
    assert network_receivers.eventually(lambda: said)
    assert "ermissions" in said[0]
    assert sink.counts()["done"] == 0
    sink.discard()
    wrong = tmp_path / "wrong"
    wrong.write_text("hunter3\n")
    stranger = opened(server.port, f"?user=board&password_file={wrong}", said)
    assert network_receivers.eventually(lambda: any("uthorization" in text for text in said))
    stranger.discard()
    assert not any("hunter" in text for text in said)
    server.kill()


def test_tls_is_checked_and_a_server_without_it_gets_no_secret(tmp_path):
    ca, cert, key = network_receivers.certificates(tmp_path)
    (tmp_path / "secret").write_text("hunter2\n")
    secret = f"user=board&password_file={tmp_path}/secret"
    login = "authorization { user: board, password: hunter2 }"
    server = Server(tmp_path, f'{login}\ntls {{ cert_file: "{cert}", key_file: "{key}" }}')
    said = []
    sink = opened(server.port, f"?ca={ca}&{secret}", said, "natss")
    stranger = opened(server.port, f"?{secret}", said, "natss")
    sink.write(network_receivers.frame(0))
    assert network_receivers.eventually(lambda: sink.counts()["done"] == 1)
    assert network_receivers.eventually(lambda: stranger.counts()["failures"] > 0)
    assert any("certificate" in text.lower() for text in said)
    sink.close()
    stranger.discard()
    server.kill()
    # One that offers none, as where an attacker in between takes the offer out.
    received = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as plain:
        sink = opened(plain.getsockname()[1], f"?ca={ca}&{secret}", said, "natss")
        client, _ = plain.accept()
        client.sendall(b'INFO {"server_id":"a","version":"2.9.0","proto":1,"max_payload":1048576}\r\n')
        client.settimeout(1)
        while part := client.recv(4096):
            received += part
        client.close()
        sink.discard()
    assert bytes(received) == b""
    assert any("offers no TLS" in text for text in said)
    assert not any("hunter" in text for text in said)


def test_a_privacy_stop_forgets_what_waits(tmp_path):
    sink = opened(network_receivers.free_port(), f"?spool={tmp_path}/spool")
    for n in range(5):
        sink.write(network_receivers.frame(n))
    sink.discard()
    assert sink.counts()["waiting"] == 0
    assert [path for path in (tmp_path / "spool").iterdir() if path.name != "lock"] == []


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("nats://10.0.0.1/hall?user=a&password_file={}/secret", "in the clear: use natss://"),
        ("nats://localhost/hall?user=a", "both"),
        ("nats://localhost/hall.*", "expected a subject"),
        ("nats://localhost/", "expected a subject"),
        ("nats://localhost/hall?ca=x", "expected options of"),
        ("nats://a:hunter2@localhost/hall", "a password in an address"),
        ("nats://localhost/hall?as=xml", "as=json or as=png or as=jpeg"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, text, match):
    (tmp_path / "secret").write_text("hunter2\n")
    with pytest.raises(BadInput, match=match) as refused:
        open_sink(text.format(tmp_path), network_receivers.OUTPUTS)
    assert "hunter2" not in str(refused.value)
