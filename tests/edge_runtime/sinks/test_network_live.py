"""From a camera to a broker and a page: the service with real sinks, a broker that dies, and nothing raw anywhere."""

import http.client
import json
import signal

import pytest

from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.sinks import wire
from tests.support import bundles, live_fakes, network_receivers, programs
from tests.support.broker_services import arguments, finish, start

pytestmark = pytest.mark.programs


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    return bundles.make_bundle(tmp_path_factory.mktemp("wide"), example=live_fakes.wide_example())


def page(port, path="/state.json"):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    client.request("GET", path)
    return client.getresponse().read()


def reached(port):
    try:
        return json.loads(page(port))["tick"] is not None
    except OSError:
        return False


@pytest.mark.cameras
def test_from_a_camera_to_a_broker_and_a_page(wide, tmp_path):
    programs.need("mosquitto")
    broker, port = network_receivers.Broker(tmp_path), network_receivers.free_port()
    listener = network_receivers.Listener(broker.port)
    sinks = f"mqtt://127.0.0.1:{broker.port}/hall?spool={tmp_path}/spool", f"preview:{port}"
    process = start([*arguments(wide, "fake:0?drop=20", *sinks), "--camera-aid"], tmp_path)
    form = wire.Format(parse(wide.manifest).outputs, parse(wide.manifest))
    try:
        assert network_receivers.eventually(lambda: reached(port), 20)
        assert network_receivers.eventually(lambda: len(listener.on("hall")) > 30)
        states = [json.loads(page(port))]
        broker.kill()
        # The page goes on, whatever the network does.
        assert network_receivers.eventually(lambda: json.loads(page(port))["tick"] > states[0]["tick"] + 15)
        broker.start()
        listener.subscribed(2)
        # Not yet there again when it is told to stop: what waits must still be sent.
        states.append(json.loads(page(port)))
        raw = page(port) + page(port, "/") + page(port, "/frame.png?slot=0")
    finally:
        process.send_signal(signal.SIGTERM)
        code, document, events = finish(process)
    assert code == 0, events
    last = network_receivers.eventually(lambda: b"offline" in listener.on("hall/status")[-1])
    records = {form.decode(payload).id: form.decode(payload) for payload in listener.on("hall")}
    everything = b"".join(message.payload for message in listener.messages)
    broker.kill()
    listener.close()
    ticks = sorted(record.index for record in records.values())
    # Each tick once. Only what a killed broker had acknowledged and not yet passed on can be missing.
    assert len(ticks) == len(set(ticks))
    assert ticks[-1] + 1 - len(ticks) <= 2
    assert last, (listener.on("hall/status"), events)
    assert document["dropped"]["unreadable"] == 1
    for state in states:
        assert 5 < state["fps"] < 35  # 25 ticks a second; a busy machine takes fewer
        assert state["latency_ms"] > 0
        assert set(state["camera_aid"].values()) == {0}  # a vector has nothing to focus
    assert states[1]["drops"]["unreadable"] == 1
    assert any(event["event"] == "camera-aid" for event in events)
    times = {record.tick_ns - record.index * 40_000_000 for record in records.values()}
    assert max(times) - min(times) < 2_000_000  # ticks, to the millisecond; never the time of a capture
    for place in (raw, everything, json.dumps(events).encode(), *(p.read_bytes() for p in tmp_path.rglob("*.spool"))):
        assert live_fakes.SECRET not in place
        assert b"unreadable" not in everything
    # Nothing is left to send.
    assert list((tmp_path / "spool").glob("*.spool")) == []
