"""kafka: against librdkafka's brokers, which speak Kafka's protocol on a socket, and its consumer.

They have no TLS and no login: those are what kafka-python is given here. No test has Apache Kafka itself.
"""

import collections
import contextlib
import json
import logging
import socket
import threading
import time

import confluent_kafka
import pytest
from kafka.net import connection

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.late_imports import decoded
from edgeveil.edge_runtime.sinks import kafka as kafka_sink
from edgeveil.edge_runtime.sinks import open_sink, wire
from edgeveil.edge_runtime.sinks.kafka import KafkaSink
from tests.support import network_receivers

FORM = wire.Format(network_receivers.OUTPUTS, network_receivers.MANIFEST)
QUIET = logging.getLogger("librdkafka")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


class Brokers:
    """One broker of librdkafka, for as long as its producer lives."""

    def __init__(self):
        self._producer = confluent_kafka.Producer({"test.mock.num.brokers": 1}, logger=QUIET)
        (broker,) = self._producer.list_topics(timeout=5).brokers.values()
        self.port = broker.port

    def messages(self, count, topic="hall-door"):
        """So many messages of the topic, by their content type, in the order of each partition."""
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": f"127.0.0.1:{self.port}", "group.id": "t", "auto.offset.reset": "earliest"},
            logger=QUIET,
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(4)])
        found, end = [], time.monotonic() + 20
        while len(found) < count and time.monotonic() < end:
            message = consumer.poll(0.1)
            if message is not None and not message.error():
                found.append(message)
        consumer.close()
        kinds = collections.defaultdict(list)
        for one in found:
            kinds[dict(one.headers())["content-type"].decode().rpartition("/")[2]].append(one)
        return kinds


@pytest.fixture(autouse=True)
def asks_by_version_2(monkeypatch):
    """Librdkafka's brokers take no newer question after their versions, and say so in bytes that Kafka never sends."""
    begin = connection.KafkaConnection.__init__

    def init(self, *arguments, **settings):
        begin(self, *arguments, **settings)
        self._api_versions_idx = 2

    monkeypatch.setattr(connection.KafkaConnection, "__init__", init)


@pytest.fixture
def brokers():
    return Brokers()


def opened(port, query="", said=None):
    options = {"say": ([] if said is None else said).append, "backoff": {"first_s": 0.05, "most_s": 0.2}}
    uri = f"kafka://127.0.0.1:{port}/hall-door{query}"
    return open_sink(uri, network_receivers.OUTPUTS, network_receivers.MANIFEST, options)


def test_records_format_and_status_arrive_with_their_ids(brokers):
    sink = opened(brokers.port)
    for n in range(40):
        sink.write(network_receivers.frame(n, slot=n % 2))
    assert network_receivers.eventually(lambda: sink.counts()["done"] == 40)
    sink.announce("degraded", 123)
    assert network_receivers.eventually(lambda: sink._pending_status is None)
    sink.close()
    found = brokers.messages(43)
    records = found["vnd.edgeveil.record"]
    assert sorted(FORM.decode(one.value()).index for one in records) == list(range(40))
    assert {dict(one.headers())["edgeveil-id"].decode() for one in records} == {
        FORM.decode(one.value()).id for one in records
    }
    for slot in range(2):
        mine = [one for one in records if one.key() == f"hall/{slot}".encode()]
        assert [FORM.decode(one.value()).index for one in mine] == list(range(slot, 40, 2))  # of a slot, in order
    assert {one.timestamp()[1] for one in records[:1]} == {FORM.decode(records[0].value()).tick_ns // 10**6}
    assert json.loads(found["vnd.edgeveil.format+json"][0].value()) == FORM.document
    states = [json.loads(one.value())["state"] for one in found["vnd.edgeveil.status+json"]]
    assert states == ["running", "degraded"]
    assert len({len(one.value()) for one in records}) == 1


@pytest.mark.parametrize(("form", "kind"), [("json", "json"), ("png", "png")])
def test_forms_are_sent_as_for_http(brokers, form, kind):
    sink = opened(brokers.port, f"?as={form}&name=door")
    sink.write(network_receivers.frame(7))
    assert network_receivers.eventually(lambda: sink.counts()["done"] == 1)
    sink.close()
    (one,) = brokers.messages(3)[kind]
    assert one.key() == b"door/0"
    value = one.value()
    assert (json.loads(value)["outputs"]["frame"][0][0] if form == "json" else decoded(value)[0, 0].tolist()) in (
        7,
        [7],
    )


class Door:
    """An address that leads to a broker, or to none: kafka-python asks there first."""

    def __init__(self):
        self.target, self._server = None, socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            client, _ = self._server.accept()
            if self.target is None:
                client.close()
                continue
            far = socket.create_connection(("127.0.0.1", self.target))
            for one, other in ((client, far), (far, client)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(2**16):
                other.sendall(data)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)


def test_records_wait_for_a_broker_that_comes_late(tmp_path, monkeypatch):
    monkeypatch.setattr(kafka_sink, "TIMEOUT_S", 1.0)
    door, said = Door(), []
    sink = opened(door.port, f"?spool={tmp_path}/spool", said)
    for n in range(10):
        sink.write(network_receivers.frame(n))
    assert network_receivers.eventually(lambda: said, 15)
    assert "no broker answers" in said[0]
    assert sink.counts()["waiting"] == 10
    brokers = Brokers()
    door.target = brokers.port
    assert network_receivers.eventually(lambda: sink.counts()["done"] == 10, 20)
    sink.close()
    records = brokers.messages(12)["vnd.edgeveil.record"]
    assert [FORM.decode(one.value()).index for one in records] == list(range(10))


def test_a_privacy_stop_forgets_what_waits(tmp_path):
    sink = opened(network_receivers.free_port(), f"?spool={tmp_path}/spool")
    for n in range(5):
        sink.write(network_receivers.frame(n))
    sink.discard()
    assert sink.counts()["waiting"] == 0
    assert [path for path in (tmp_path / "spool").iterdir() if path.name != "lock"] == []


def test_the_login_and_tls_are_what_the_library_is_given(tmp_path, monkeypatch):
    import ssl

    import kafka

    ca, _, _ = network_receivers.certificates(tmp_path)
    (tmp_path / "secret").write_text("hunter2\n")
    given = []

    class Producer:
        DEFAULT_CONFIG = kafka.KafkaProducer.DEFAULT_CONFIG

        def __init__(self, **settings):
            given.append(settings)
            raise kafka.errors.NoBrokersAvailable

    monkeypatch.setattr(kafka, "KafkaProducer", Producer)
    said = []
    uri = f"kafkas://10.0.0.1/hall?ca={ca}&user=board&password_file={tmp_path}/secret&sasl=SCRAM-SHA-512"
    sink = KafkaSink(uri, network_receivers.OUTPUTS, None, {"say": said.append})
    assert network_receivers.eventually(lambda: said)
    sink.discard()
    (one, *_) = given
    assert set(one) <= set(kafka.KafkaProducer.DEFAULT_CONFIG)
    assert (
        one["security_protocol"],
        one["sasl_mechanism"],
        one["sasl_plain_username"],
        one["sasl_plain_password"],
    ) == ("SASL_SSL", "SCRAM-SHA-512", "board", "hunter2")
    assert one["ssl_context"].verify_mode == ssl.CERT_REQUIRED
    assert one["ssl_context"].check_hostname
    assert one["bootstrap_servers"] == ["10.0.0.1:9093"]
    assert not any("hunter2" in text for text in said)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("kafka://10.0.0.1/hall?user=a&password_file={}/secret&sasl=PLAIN", "in the clear: use kafkas://"),
        ("kafka://localhost/hall?user=a&password_file={}/secret", "needs user=NAME, password_file=FILE and sasl="),
        ("kafka://localhost/hall?user=a&sasl=GSSAPI", "sasl=PLAIN or SCRAM"),
        ("kafka://localhost/hall/door", "expected a topic"),
        ("kafka://localhost/", "expected a topic"),
        ("kafka://a:hunter2@localhost/hall", "a password in an address"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, text, match):
    (tmp_path / "secret").write_text("hunter2\n")
    with pytest.raises(BadInput, match=match) as refused:
        open_sink(text.format(tmp_path), network_receivers.OUTPUTS)
    assert "hunter2" not in str(refused.value)
