"""``TOPIC/model`` of a broker: the newest round that a collector published, retained for who comes later."""

import os
import threading
from typing import Any, Optional

from edgeveil.edge_runtime.sinks.network.broker import Broker

MODEL = "/model"


class ModelFeed(object):
    """Listens from ``start`` on, in a thread of its own, and comes back after a lost connection.

    ``handle`` becomes readable when something came; then call ``newest``. Raises ``BadInput`` for a bad URI.
    """

    def __init__(self, uri: str) -> None:
        self._broker = Broker(uri)
        self._topic = self._broker.topic + MODEL
        self._lock = threading.Lock()
        self._newest: Optional[bytes] = None
        self.handle, self._wake = os.pipe()
        for end in (self.handle, self._wake):
            os.set_blocking(end, False)
        # A name of its own: the sink of this device has another one.
        self._client = self._broker.client("edgeveil-model-" + os.urandom(6).hex(), reconnect=True)
        self._client.reconnect_delay_set(1, 30)
        self._client.on_connect, self._client.on_message = self._on_connect, self._on_message

    def start(self) -> None:
        """Connect, now or as soon as there is a broker."""
        self._client.connect_async(self._broker.host, self._broker.port, keepalive=30)
        self._client.loop_start()

    def newest(self) -> Optional[bytes]:
        """What was published last since the last call; None where nothing was."""
        with self._lock:
            newest, self._newest = self._newest, None
            try:
                os.read(self.handle, 64)
            except BlockingIOError:
                pass
        return newest

    def close(self) -> None:
        """End the connection."""
        self._client.disconnect()
        self._client.loop_stop()

    # paho's thread calls these.
    def _on_connect(self, client: Any, _userdata: Any, _flags: Any, code: Any, *_: Any) -> None:
        if code == 0:
            client.subscribe(self._topic, 1)

    def _on_message(self, _client: Any, _userdata: Any, message: Any) -> None:
        with self._lock:
            self._newest = bytes(message.payload)
            try:
                os.write(self._wake, b"x")
            except BlockingIOError:
                pass
