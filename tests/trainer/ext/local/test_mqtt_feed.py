"""Reports of several devices through a real mosquitto: each counted once, also where it dies in between."""

import socket
import threading
import time

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.sinks import open_sink
from edgeveil.trainer.ext.local.blocks import open_feeds
from edgeveil.trainer.ext.local.collect import collect
from edgeveil.trainer.ext.local.reporting import reporting
from tests.support import network_receivers, programs
from tests.support.promised import collector_bundles as reports

pytestmark = pytest.mark.programs

EACH = 60


@pytest.fixture
def broker(tmp_path):
    programs.need("mosquitto")
    started = network_receivers.Broker(tmp_path)
    yield started
    started.kill()


@pytest.fixture
def bundle(tmp_path):
    return reports.opened(reports.made(tmp_path, "duchi-linf", unit="subject"))


def device(broker, bundle, name, first_s=0.05):
    fast = {"say": lambda _: None, "backoff": {"first_s": first_s, "most_s": 2.0}}
    uri = f"mqtt://localhost:{broker.port}/survey{name}"
    return open_sink(uri, bundle.manifest.outputs, bundle.manifest, fast)


def report(sign, tick):
    return PerturbedFrame(tick, {"report": np.full(4, sign, np.int8)}, _PIPELINE)


class Collector(threading.Thread):
    """A collection in the background that is ready once it is subscribed."""

    def __init__(self, broker, bundle, most):
        super().__init__()
        self._reading = reporting(bundle)
        uri = f"mqtt://localhost:{broker.port}/survey"
        self.feeds = open_feeds([uri], bundle.manifest, self._reading, most=most, seconds=30)
        self._bundle, self._most = bundle, most
        self.subscribed = threading.Event()
        answers = self.feeds[0]._subscription._answers
        put = answers.put
        answers.put = lambda answer: (put(answer), self.subscribed.set())
        self.heard, take = 0, self.feeds[0]._subscription._take

        def count(device, payload):
            take(device, payload)
            self.heard += 1

        self.feeds[0]._subscription._take = count
        self.start()
        assert self.subscribed.wait(10)

    def run(self):
        self.found = collect(self._bundle, self._reading, self.feeds, "mean", most=self._most)

    def result(self):
        self.join(30)
        return self.found


@pytest.mark.cameras
def test_devices_on_a_topic_of_their_own_and_strangers(broker, bundle):
    collector = Collector(broker, bundle, 3 * EACH)
    sinks = [device(broker, bundle, name) for name in ("", "/one", "/two")]
    stranger = open_sink(
        f"mqtt://localhost:{broker.port}/survey/stranger", network_receivers.OUTPUTS, network_receivers.MANIFEST, {}
    )
    stranger.write(network_receivers.frame(0))
    assert network_receivers.eventually(lambda: collector.feeds[0].refused == 1)
    for tick in range(EACH):
        for sink in sinks:
            sink.write(report(1 if sink is sinks[0] else -1, tick))
    found = collector.result()
    for sink in (*sinks, stranger):
        sink.close()
    assert found["reports"] == {"counted": 3 * EACH, "refused": {"of another format": 1}, "senders": 3}
    assert found["units"] == 3
    radius_b = found["influence"]["one_report"] * 3 * EACH / 2
    assert found["mean"] == pytest.approx([8 - radius_b / 3] * 4)
    assert found["influence"]["one_sender"] == pytest.approx(2 * radius_b / 3)


@pytest.mark.cameras
def test_a_broker_that_dies_makes_nothing_count_twice(broker, bundle):
    collector = Collector(broker, bundle, EACH)
    # It comes back after the collector: a broker without a disk keeps nothing for who is not there.
    sink = device(broker, bundle, "/one", first_s=1.5)
    for start in (0, 20, 40):
        for tick in range(start, start + 20):
            sink.write(report(1, tick))
        assert network_receivers.eventually(lambda upto=start + 20: sink.counts()["done"] == upto)
        time.sleep(0.2)
        again = network_receivers.Listener(broker.port)
        for tick in range(start, start + 19):  # as a device does that was cut off before it heard
            again.client.publish("survey/one", sink._format.encode(report(1, tick), sink._spool.stream, tick), qos=1)
        assert network_receivers.eventually(lambda again=again: len(again.on("survey/one")) == 19)
        again.close()
        if start < 40:
            # A message that is on its way to the collector as the broker dies is lost.
            upto = (start // 20 + 1) * (20 + 19)
            assert network_receivers.eventually(lambda upto=upto: collector.heard >= upto)
            collector.subscribed.clear()
            broker.kill()
            broker.start()
            assert collector.subscribed.wait(20)
    found = collector.result()["reports"]
    sink.close()
    assert found["counted"] == EACH
    assert found["refused"]["seen before"] >= 38


def test_no_broker_is_said(bundle):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        uri = f"mqtt://127.0.0.1:{nobody.getsockname()[1]}/survey"
        feeds = open_feeds([uri], bundle.manifest, reporting(bundle), most=1, seconds=None)
        with pytest.raises(DeviceFailed, match=r"cannot be reached: Connection refused"):
            collect(bundle, reporting(bundle), feeds, "mean", most=1)


@pytest.mark.parametrize("uri", ["mqtt://localhost", "mqtt://localhost/a/#", "mqtt://me:secret@localhost/a"])
def test_addresses_that_are_refused(bundle, uri):
    with pytest.raises(BadInput) as refused:
        open_feeds([uri], bundle.manifest, reporting(bundle), most=1, seconds=None)
    assert "secret" not in str(refused.value)
