"""A connection to a broker that hears what devices send, and comes back by itself after it was lost."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.sinks.network.base import TIMEOUT_S
from edgeveil.edge_runtime.sinks.network.broker import Broker

NO_DEVICES = ("format", "about", "status", "count")  # what devices on TOPIC itself put there


class Subscription:
    """To the devices of ``uri``, TOPIC/DEVICE each, and with ``topic_too`` to one that publishes on TOPIC itself.

    ``take`` gets the device's name and payload of each message, in the connection's thread. Raises ``BadInput`` for a
    bad URI.
    """

    def __init__(self, uri: str, take: Callable[[str, bytes], None], *, topic_too: bool = False) -> None:
        self._broker, self._take = Broker(uri), take
        self.topic = self._broker.topic
        self._asked = [(f"{self.topic}/+", 1), *([(self.topic, 1)] if topic_too else [])]
        self._answers: queue.Queue[str] = queue.Queue()
        self.client = self._broker.client(self._broker.options.get("client_id") or "", reconnect=True)
        self.client.reconnect_delay_set(0.2, 5)
        self.client.on_connect, self.client.on_message = self._on_connect, self._on_message
        self.client.on_subscribe = lambda *_: self._answers.put("")

    def open(self) -> None:
        """Connect. Raises ``DeviceFailed`` where no broker answers, or one refuses."""
        try:
            self.client.connect(self._broker.host, self._broker.port, keepalive=30)
            self.client.loop_start()
            answer = self._answers.get(timeout=TIMEOUT_S)
        except (OSError, queue.Empty) as error:
            self.client.loop_stop()
            reason = getattr(error, "strerror", None) or "it does not answer"
            raise DeviceFailed(f"The broker at {self._broker.where} cannot be reached: {reason}.") from None
        if answer:
            self.close()
            raise DeviceFailed(f"The broker at {self._broker.where} refuses the connection: {answer}.")

    def close(self) -> None:
        """End the connection."""
        self.client.disconnect()
        self.client.loop_stop()

    # paho's thread calls these two.
    def _on_connect(self, client: Any, _data: Any, _flags: Any, code: Any, *_: Any) -> None:
        if code != 0:
            self._answers.put(str(code))
            return
        client.subscribe(self._asked)

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        device = message.topic[len(self.topic) + 1 :]
        if device not in NO_DEVICES:
            self._take(device, bytes(message.payload))
