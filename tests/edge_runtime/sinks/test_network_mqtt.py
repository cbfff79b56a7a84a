"""mqtt: and mqtts: against a real mosquitto: nothing lost, nothing counted twice, nothing secret shown."""

import json
import re
import socket
import time

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.late_imports import decoded
from edgeveil.edge_runtime.machine import clock_word
from edgeveil.edge_runtime.sinks import open_sink, wire
from tests.support import network_receivers, programs

pytestmark = [pytest.mark.cameras, pytest.mark.programs]
FORM = wire.Format(network_receivers.OUTPUTS, network_receivers.MANIFEST)
FAST = {"backoff": {"first_s": 0.05, "most_s": 0.2}}


@pytest.fixture
def broker(tmp_path):
    programs.need("mosquitto")
    started = network_receivers.Broker(tmp_path)
    yield started
    started.kill()


def mqtt(port, query="", said=None, scheme="mqtt", **options):
    said = [] if said is None else said
    text = f"{scheme}://localhost:{port}/hall/door{query}"
    return open_sink(
        text, network_receivers.OUTPUTS, network_receivers.MANIFEST, {"say": said.append, **FAST, **options}
    )


def counted(listener):
    """The ticks that arrived, each once, however often its record did."""
    records = [FORM.decode(payload) for payload in listener.on("hall/door")]
    return sorted({record.id: record.index for record in records}.values())


def test_frames_format_status_and_labels_arrive(broker):
    listener = network_receivers.Listener(broker.port)
    sink = mqtt(broker.port)
    for n in range(50):
        sink.write(network_receivers.frame(n))
    assert network_receivers.eventually(lambda: len(listener.on("hall/door/label/label/0")) == 50)
    assert sink._socket_now().getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)  # a record waits for no other
    first = FORM.decode(listener.on("hall/door")[0])
    assert np.array_equal(first.outputs["frame"], network_receivers.frame(0).outputs["frame"])
    assert json.loads(listener.on("hall/door/format")[0]) == FORM.document
    events = [json.loads(payload) for payload in listener.on("hall/door/label/label/0")]
    assert [event["name"] for event in events[:3]] == ["empty", "walking", "empty"]
    assert [event["tick"] for event in events] == list(range(50))
    # Who sees encrypted bytes pass by learns nothing from their number.
    assert len({len(payload) for payload in listener.on("hall/door")}) == 1
    assert len({len(payload) for payload in listener.on("hall/door/label/label/0")}) == 1
    sink.announce("degraded", 123)
    sink.shift({"state": "shifted", "distance": 0.4})
    assert network_receivers.eventually(lambda: len(listener.on("hall/door/status")) == 2)
    assert network_receivers.eventually(lambda: len(listener.on("hall/door/shift")) == 1)
    assert json.loads(listener.on("hall/door/shift")[0])["state"] == "shifted"
    sink.close()
    assert network_receivers.eventually(lambda: len(listener.on("hall/door/status")) == 3)
    states = [json.loads(payload) for payload in listener.on("hall/door/status")]
    assert states == [
        {"state": "running", "since_ns": None, "clock": clock_word()},
        {"state": "degraded", "since_ns": 123, "clock": clock_word()},
        {"state": "offline", "since_ns": None},
    ]
    assert counted(listener) == list(range(50))
    listener.close()


def test_a_picture_of_each_slot_goes_out_by_the_clock_alone(broker):
    listener = network_receivers.Listener(broker.port)
    sink = mqtt(broker.port, "?picture=2s")
    for n in range(50):  # a tenth of a second each
        for slot in range(2):
            sink.write(network_receivers.frame(n, slot))
    assert network_receivers.eventually(lambda: len(counted(listener)) == 100)
    for slot in range(2):
        assert network_receivers.eventually(lambda slot=slot: len(listener.on(f"hall/door/picture/{slot}")) == 3)
        pictures = [decoded(payload) for payload in listener.on(f"hall/door/picture/{slot}")]
        assert [int(picture.mean()) for picture in pictures] == [0, 20, 40]
    assert len({len(one) for slot in "01" for one in listener.on(f"hall/door/picture/{slot}")}) == 1
    sink.releases("ab" * 32, "cd" * 32)
    assert network_receivers.eventually(lambda: listener.on("hall/door/update") != [])
    assert json.loads(listener.on("hall/door/update")[0])["latest_version"] == "sha256:" + "cd" * 6
    late = network_receivers.Listener(broker.port)
    assert network_receivers.eventually(lambda: late.on("hall/door/update") != [])
    assert late.on("hall/door/picture/0") == []  # not retained: a privacy stop could not take it back
    sink.close()
    listener.close()
    late.close()


def test_home_assistant_is_told_what_there_is(broker):
    sink = mqtt(broker.port)
    assert network_receivers.eventually(lambda: sink.counts()["connected"] == 1)
    # Retained: who comes later gets it too.
    listener = network_receivers.Listener(broker.port, "homeassistant/#")
    topic = "homeassistant/sensor/edgeveil_hall_door/label_0/config"
    assert network_receivers.eventually(lambda: listener.on(topic) != [])
    document = json.loads(listener.on(topic)[0])
    assert document["state_topic"] == "hall/door/label/label/0"
    assert document["device_class"] == "enum"
    assert document["options"] == ["empty", "walking"]
    assert document["availability_topic"] == "hall/door/status"
    sink.close()
    listener.close()


def test_a_broker_that_is_killed_and_comes_back_costs_nothing(broker):
    said = []
    listener = network_receivers.Listener(broker.port)
    sink = mqtt(broker.port, said=said)
    assert network_receivers.eventually(lambda: sink.counts()["connected"] == 1)
    for n in range(600):
        if n == 200:
            broker.kill()
        if n == 400:
            broker.start()
            listener.subscribed(2)
        sink.write(network_receivers.frame(n))
    assert network_receivers.eventually(lambda: sink.counts()["done"] == 600)
    # A killed broker forgets what it had acknowledged and not yet passed on; what it never acknowledged comes again.
    assert network_receivers.eventually(lambda: set(range(200, 600)) <= set(counted(listener)))
    got = counted(listener)
    assert len(got) == len(set(got))
    counts = sink.counts()
    assert counts["put"] == counts["done"] + counts["full"] + counts["expired"] + counts["lost"] + counts["waiting"]
    assert counts["connections"] == 2
    assert len([text for text in said if "broker" in text or "refused" in text]) == 1
    assert any("connected again" in text for text in said)
    sink.close()
    listener.close()


def test_two_boards_with_one_topic_are_named(broker):
    said = []
    sinks = [mqtt(broker.port, said=said) for _ in range(2)]
    assert network_receivers.eventually(
        lambda: any("another client may have the client_id edgeveil-" in text for text in said)
    )
    for sink in sinks:
        sink.discard()


def test_what_waited_on_the_disk_is_sent_after_a_restart(broker, tmp_path):
    query = f"?spool={tmp_path}/spool&ttl=1h"
    broker.kill()
    sink = mqtt(broker.port, query)
    for n in range(100):
        sink.write(network_receivers.frame(n))
    sink.close()
    assert sink.counts()["lost"] == 0
    broker.start()
    listener = network_receivers.Listener(broker.port)
    sink = mqtt(broker.port, query)
    sink.write(network_receivers.frame(100))
    assert network_receivers.eventually(lambda: sink.counts()["done"] == 101)
    assert network_receivers.eventually(lambda: len(counted(listener)) == 101)
    assert counted(listener) == list(range(101))
    sink.close()
    assert list((tmp_path / "spool").glob("*.spool")) == []
    listener.close()


def test_the_last_will_says_that_nobody_is_there(broker):
    listener = network_receivers.Listener(broker.port, "hall/door/status")
    sink = mqtt(broker.port)
    assert network_receivers.eventually(lambda: listener.on("hall/door/status") != [])
    sink._stop.set()
    sink._client.socket().shutdown(2)
    assert network_receivers.eventually(lambda: len(listener.on("hall/door/status")) == 2)
    assert json.loads(listener.on("hall/door/status")[1])["state"] == "offline"
    listener.close()


def test_the_loop_is_never_held_up_and_the_oldest_go(tmp_path):
    programs.need("mosquitto")
    sink = mqtt(network_receivers.free_port(), "?spool_size=50kB")
    start = time.process_time()
    for n in range(2000):
        sink.write(network_receivers.frame(n))
    assert time.process_time() - start < 2.0
    counts = sink.counts()
    assert counts["waiting"] * (wire.HEADER_BYTES + 28) <= 50_000
    assert counts["full"] == 2000 - counts["waiting"]
    start = time.monotonic()
    sink.close()
    assert time.monotonic() - start < 10  # without a broker it could wait for ever


def test_a_broker_that_hangs_holds_nobody_up_and_what_it_did_not_take_is_kept(broker, tmp_path):
    sink = mqtt(broker.port, f"?spool={tmp_path}/spool")
    assert network_receivers.eventually(lambda: sink.counts()["connected"] == 1)
    broker.hang()
    for n in range(100):
        sink.write(network_receivers.frame(n))
    start = time.monotonic()
    sink.close()
    assert time.monotonic() - start < 10
    assert sink.counts()["lost"] == 0
    broker.kill()
    broker.start()
    listener = network_receivers.Listener(broker.port)
    again = mqtt(broker.port, f"?spool={tmp_path}/spool")
    assert network_receivers.eventually(lambda: counted(listener) == list(range(100)))
    again.close()
    listener.close()


def test_a_privacy_stop_forgets_what_waits(tmp_path):
    programs.need("mosquitto")
    sink = mqtt(network_receivers.free_port(), f"?spool={tmp_path}/spool")
    for n in range(10):
        sink.write(network_receivers.frame(n))
    sink.discard()
    assert sink.counts()["waiting"] == 0
    assert list((tmp_path / "spool").glob("*.spool")) == []


def test_tls_with_an_authority_and_a_password(tmp_path):
    import subprocess

    programs.need("mosquitto")
    ca, cert, key = network_receivers.certificates(tmp_path)
    (tmp_path / "passwords").write_text("")
    subprocess.run(
        [programs.need("mosquitto_passwd"), "-b", str(tmp_path / "passwords"), "door", "open sesame"], check=True
    )
    (tmp_path / "secret").write_text("open sesame\n")
    broker = network_receivers.Broker(
        tmp_path,
        f"certfile {cert}",
        f"keyfile {key}",
        "allow_anonymous false",
        f"password_file {tmp_path}/passwords",
        "user root",
    )
    try:
        said = []
        good = f"?ca={ca}&user=door&password_file={tmp_path}/secret"
        sink = mqtt(broker.port, good, said, scheme="mqtts")
        for n in range(20):
            sink.write(network_receivers.frame(n))
        assert network_receivers.eventually(lambda: sink.counts()["done"] == 20)
        sink.close()
        # Without the authority nothing is sent, not even the password; with a wrong one the broker says no.
        stranger = mqtt(broker.port, f"?user=door&password_file={tmp_path}/secret", said, scheme="mqtts")
        (tmp_path / "wrong").write_text("open barley\n")
        wrong = mqtt(broker.port, f"?ca={ca}&user=door&password_file={tmp_path}/wrong", said, scheme="mqtts")
        assert network_receivers.eventually(lambda: len(said) >= 2)
        for each in (stranger, wrong):
            assert each.counts()["connections"] == 0
            each.close()
        assert any("certificate" in text.lower() for text in said)
        assert any("refuses" in text for text in said)
        assert not any("sesame" in text or "barley" in text for text in said)
    finally:
        broker.kill()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("mqtt://localhost", "expected a topic"),
        ("mqtt://localhost/", "expected a topic"),
        ("mqtt://localhost/a/+/b", "expected a topic"),
        ("mqtt://localhost/$SYS/x", "expected a topic"),
        *((f"mqtt://localhost/a{odd}b", "expected a topic") for odd in ("\udcff", "\x7f", "%C2%85", "%00")),
        ("mqtt://localhost/t?client_id=a%00", "printable characters in client_id"),
        ("mqtt:///topic", "no host"),
        ("mqtt://localhost:no/topic", "cannot be parsed"),
        ("mqtt://me:hunter2@localhost/topic", "process lists"),
        ("mqtt://localhost/t?password=hunter2", "expected options"),
        ("mqtt://localhost/t?password_file={}/none", "was expected in"),
        ("mqtt://localhost/t?password_file={}/secret", "needs user"),
        ("mqtt://broker.example/t?user=me&password_file={}/secret", "in the clear"),
        ("mqtts://localhost/t?ca={}/secret", "PEM"),
        ("mqtts://localhost/t?cert={}/secret", "both"),
        ("mqtt://localhost/t?ttl=soon", "duration"),
        ("mqtt://localhost/t?ttl=1h&ttl=2h", "twice"),
        ("mqtt:broker", "expected a sink"),
        ("mqqt://me:hunter2@localhost/topic", "expected a sink"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_no_secret_shown(tmp_path, text, match):
    (tmp_path / "secret").write_text("hunter2\n")
    with pytest.raises(BadInput, match=match) as refused:
        open_sink(text.format(tmp_path), network_receivers.OUTPUTS, network_receivers.MANIFEST)
    assert not re.search("hunter2", str(refused.value))
