"""When the windows of a wheel arrived: those of a service, and those of a control that has nothing to hide."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import paho.mqtt.client as mqtt

from edgeveil.edge_runtime.sinks.network.wire import Format
from scripts.reproduce.series.wheel import EIGHTHS, Wheel

SERVICE, CONTROL = "wheel", "control"  # their topics
# The reader and the windows of the service, and what is read goes straight to the broker.
STRAIGHT = """
import sys
import paho.mqtt.client as mqtt
from edgeveil.edge_runtime.manifest.manifest import Input, Sampling, Windows
from edgeveil.edge_runtime.sources.series.source import open_samples
path, speed, port, rate, length, hop, channels, topic = sys.argv[1:]
names = tuple("abcdefgh"[: int(channels)])
sampling = Sampling(float(rate), names, ("g",) * len(names))
ends = [-2.0] * len(names), [2.0] * len(names)
spec = Input("x", "series", (int(length), len(names)), "float32", *ends, None, sampling)
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
client.connect("127.0.0.1", int(port))
client.loop_start()
with open_samples("serial", f"{path},{speed},lines", spec, Windows(int(hop), 0.1, None)) as source:
    print("ready", flush=True)
    while True:
        client.publish(topic, str(source.next().index), qos=1)
"""


class Receiver:
    """When each window arrived, by ``time.monotonic``: of the service by the eighth in its record, of the control by
    the number that it sends. ``repeated`` counts records of a window that was there before."""

    def __init__(self, port: int, form: Format, wheel: Wheel) -> None:
        self._form, self._wheel = form, wheel
        self.came_s: dict[str, dict[int, float]] = {SERVICE: {}, CONTROL: {}}
        self.repeated = 0
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self._client.on_connect = lambda client, *_: client.subscribe([(SERVICE, 1), (CONTROL, 1)])
        self._client.on_message = lambda _client, _data, message: self._take(message.topic, message.payload)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def _take(self, topic: str, payload: bytes) -> None:
        now, there = time.monotonic(), len(self._wheel.written_s)
        if topic == CONTROL:
            self.came_s[CONTROL].setdefault(int(payload), now)
            return
        eighth = int(self._form.decode(payload).outputs["label"])
        window = there - 1 - (there - 1 - eighth) % EIGHTHS  # the latest of that eighth; one is at most a turn old
        if window < 0 or window in self.came_s[SERVICE]:
            self.repeated += 1
        else:
            self.came_s[SERVICE][window] = now

    def close(self) -> None:
        """Stop listening."""
        self._client.loop_stop()
        self._client.disconnect()


def times(wheel: Wheel, receiver: Receiver) -> dict[str, Any]:
    """From the last sample of a window to its arrival, of both; and what the service adds, window by window."""
    late = {
        name: {window: 1e3 * (at - wheel.written_s[window]) for window, at in came.items()}
        for name, came in receiver.came_s.items()
    }
    added = [ms - late[CONTROL][window] for window, ms in late[SERVICE].items() if window in late[CONTROL]]
    named = {f"{name}_ms": list(found.values()) for name, found in late.items()} | {"added_ms": added}
    return {
        name: {
            f"p{p}" if p < 100 else "most": round(float(np.percentile(found, p)), 2) for p in (0, 1, 50, 99, 99.9, 100)
        }
        for name, found in named.items()
    }
