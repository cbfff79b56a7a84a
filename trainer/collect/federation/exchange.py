"""The broker between a training and its devices: rounds go to TOPIC/model, retained; reports come on TOPIC/DEVICE."""

from __future__ import annotations

import queue
from typing import Any, NamedTuple

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.sinks.network.base import TIMEOUT_S
from edgeveil.edge_runtime.sinks.network.broker import Broker
from edgeveil.trainer.collect.feeds.mqtt_feed import NO_DEVICES

MODEL = "model"
_WAITING = 1 << 14  # messages between the connection and the training; the broker keeps the others


class Message(NamedTuple):
    """What a device sent."""

    device: str
    payload: bytes


class Exchange:
    """A connection that comes back by itself. The broker keeps a session of the training ``run`` meanwhile.

    Raises ``BadInput`` for a bad URI, ``DeviceFailed`` where no broker answers.
    """

    def __init__(self, uri: str, run: int) -> None:
        self._broker = Broker(uri)
        self._topic = self._broker.topic
        self._model = b""
        self._came: queue.Queue[Message] = queue.Queue(_WAITING)
        self._answers: queue.Queue[str] = queue.Queue()
        name = self._broker.options.get("client_id") or f"edgeveil-federate-{run}"
        self._client = self._broker.client(name, reconnect=True, session=True)
        self._client.reconnect_delay_set(1, 5)
        self._client.on_connect, self._client.on_message = self._on_connect, self._on_message
        self._client.on_subscribe = lambda *_: self._answers.put("")
        try:
            self._client.connect(self._broker.host, self._broker.port, keepalive=30)
            self._client.loop_start()
            answer = self._answers.get(timeout=TIMEOUT_S)
        except (OSError, queue.Empty) as error:
            self._client.loop_stop()
            reason = getattr(error, "strerror", None) or "it does not answer"
            raise DeviceFailed(f"The broker at {self._broker.where} cannot be reached: {reason}.") from None
        if answer:
            self._client.loop_stop()
            raise DeviceFailed(f"The broker at {self._broker.where} refuses the connection: {answer}.")

    # paho's thread calls these two.
    def _on_connect(self, client: Any, _data: Any, _flags: Any, code: Any, *_: Any) -> None:
        if code != 0:
            self._answers.put(str(code))
            return
        client.subscribe(f"{self._topic}/+", 1)
        if self._model:  # a broker without a disk forgot it
            client.publish(f"{self._topic}/{MODEL}", self._model, qos=1, retain=True)

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        device = message.topic[len(self._topic) + 1 :]
        if device not in NO_DEVICES:
            self._came.put(Message(device, bytes(message.payload)))

    def publish(self, model: bytes) -> None:
        """Make this the round of the training, for devices that come later too; empty: there is none any more."""
        self._model = model
        self._client.publish(f"{self._topic}/{MODEL}", model, qos=1, retain=True)

    def next(self, timeout_s: float) -> Message | None:
        """The next message of a device, or None after that time."""
        try:
            return self._came.get(timeout=max(timeout_s, 0.0))
        except queue.Empty:
            return None

    def close(self) -> None:
        """Withdraw the round, as far as the broker is there, and leave."""
        self._model = b""
        withdrawn = self._client.publish(f"{self._topic}/{MODEL}", b"", qos=1, retain=True)
        if self._client.is_connected():
            withdrawn.wait_for_publish(timeout=2.0)
        self._client.disconnect()
        self._client.loop_stop()
