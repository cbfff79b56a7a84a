"""mqtt: with a broker that says what it took (MQTT 5, a real mosquitto), and with one that cannot say it (3.1.1)."""

import contextlib
import socket
import struct
import threading

import pytest

from edgeveil.edge_runtime.sinks import open_sink, wire
from tests.support import network_receivers, programs

pytestmark = pytest.mark.programs
FORM = wire.Format(network_receivers.OUTPUTS, network_receivers.MANIFEST)
ALL_BUT = "topic readwrite $SYS/#\ntopic write hall/door/#\ntopic write homeassistant/#\n"


@pytest.fixture
def broker(tmp_path):
    programs.need("mosquitto")
    started = []

    def start(allowed, *settings):
        (tmp_path / "acl").write_text(allowed)
        (tmp_path / "acl").chmod(0o600)
        started.append(network_receivers.Broker(tmp_path, f"acl_file {tmp_path}/acl", "user root", *settings))
        return started[0]

    yield start
    for one in started:
        one.kill()


def mqtt(port, said):
    text = f"mqtt://localhost:{port}/hall/door"
    settings = {"say": said.append, "backoff": {"first_s": 0.05, "most_s": 0.2}}
    return open_sink(text, network_receivers.OUTPUTS, network_receivers.MANIFEST, settings)


def sent(sink, frames):
    for number in range(frames):
        sink.write(network_receivers.frame(number))
    return sink


def test_a_record_that_the_access_list_denies_is_not_delivered_and_the_reason_is_said(broker):
    said, port = [], broker(ALL_BUT + "topic deny hall/door\n").port
    sink = sent(mqtt(port, said), 20)
    assert network_receivers.eventually(lambda: sink.counts()["failures"] >= 2)
    counts = sink.counts()
    assert (counts["done"], counts["waiting"]) == (0, 20)
    refusals = [text for text in said if "refuses records for hall/door (Not authorized)" in text]
    assert refusals, said
    assert "Frames wait" in refusals[0]
    sink.close()
    assert sink.delivery() == (0, 0, 20)


def test_a_label_topic_that_is_denied_is_said_once_and_records_go_on(broker):
    said, port = [], broker(ALL_BUT + "topic deny hall/door/label/label/0\n").port
    sink = sent(mqtt(port, said), 20)
    assert network_receivers.eventually(lambda: sink.counts()["done"] == 20)
    assert network_receivers.eventually(lambda: said != [])
    refusal = "refuses what is sent to hall/door/label/label/0 (Not authorized)"
    assert len([text for text in said if refusal in text]) == 1
    sink.close()


@pytest.mark.parametrize("allowed", ["topic write hall/#\n", ALL_BUT + "topic deny hall/door/status\n"])
def test_denied_documents_do_not_cost_the_records_their_connection_for_ever(broker, allowed):
    """With max_queued_messages 0, mosquitto 2.0 ends a connection at the first message that it denies."""
    said = []
    sink = sent(mqtt(broker(allowed).port, said), 60)
    assert network_receivers.eventually(lambda: sink.counts()["done"] == 60), said
    sink.close()


def test_no_more_messages_wait_than_the_broker_takes_at_a_time(broker):
    said, port = [], broker("topic readwrite #\n", "max_inflight_messages 2").port
    listener = network_receivers.Listener(port)
    sink = sent(mqtt(port, said), 60)
    assert network_receivers.eventually(lambda: sink.counts()["done"] == 60)
    assert network_receivers.eventually(lambda: len(listener.on("hall/door")) == 60)
    assert sink.counts()["failures"] == 0, said
    sink.close()
    listener.close()


class Older:
    """A broker of MQTT 3.1.1: it refuses another version as the standard says, and acknowledges every message."""

    def __init__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port, self.versions, self.taken = self._socket.getsockname()[1], [], []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            with contextlib.suppress(OSError, struct.error, IndexError):
                client = self._socket.accept()[0]
                threading.Thread(target=self._speak, args=(client.makefile("rwb"),), daemon=True).start()
                continue
            return

    def _speak(self, line):
        with contextlib.suppress(OSError, struct.error, IndexError):
            while True:
                kind, length, shift = line.read(1)[0], 0, 0
                while True:
                    byte = line.read(1)[0]
                    length |= (byte & 127) << shift
                    shift += 7
                    if byte < 128:
                        break
                body = line.read(length)
                if kind >> 4 == 1:
                    self.versions.append(body[6])
                    line.write(bytes([0x20, 2, 0, 0 if body[6] == 4 else 1]))
                elif kind >> 4 == 3:
                    topic = body[2 : 2 + struct.unpack(">H", body[:2])[0]]
                    self.taken.append(topic.decode())
                    line.write(bytes([0x40, 2]) + body[2 + len(topic) : 4 + len(topic)])
                line.flush()
                if kind >> 4 == 1 and body[6] != 4:
                    return

    def close(self):
        self._socket.close()


def test_a_broker_without_mqtt_5_is_used_as_ever_and_what_it_cannot_say_is_said():
    older, said = Older(), []
    sink = sent(mqtt(older.port, said), 20)
    assert network_receivers.eventually(lambda: sink.counts()["done"] == 20)
    assert older.versions == [5, 4]
    assert older.taken.count("hall/door") == 20
    assert [text for text in said if "no MQTT 5: what its access list denies counts as delivered" in text]
    sink.close()
    older.close()
