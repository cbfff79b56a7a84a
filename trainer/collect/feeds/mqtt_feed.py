"""``mqtt://HOST/TOPIC`` and ``mqtts://``: records of every device that publishes to TOPIC or to TOPIC/DEVICE.

The options are those of the runtime's sink of the same name: user, password_file, ca, cert, key, client_id.
"""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Generator
from typing import Any

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.sinks.network.base import TIMEOUT_S
from edgeveil.edge_runtime.sinks.network.broker import Broker
from edgeveil.trainer.collect.feeds.blocks import ROWS, Block
from edgeveil.trainer.collect.feeds.records import Records

_WAITING = 4 * ROWS  # records between the connection and the estimate; the broker keeps the others
_PAUSE_S = 0.2
NO_DEVICES = ("format", "about", "status", "count", "model")  # what devices on TOPIC itself, and who trains, put there


class MqttFeed:
    """Ends after ``seconds``, or never where None. Raises ``BadInput``, ``DeviceFailed``."""

    def __init__(self, uri: str, records: Records, *, seconds: float | None) -> None:
        self.refused = 0
        self._records, self._seconds = records, seconds
        self._closed = False
        self._came: queue.Queue[bytes] = queue.Queue(_WAITING)
        self._answers: queue.Queue[str] = queue.Queue()
        self._broker = Broker(uri)
        self._topic = self._broker.topic
        self._client = self._broker.client(self._broker.options.get("client_id", ""), reconnect=True)
        self._client.reconnect_delay_set(0.2, 5)
        self._client.on_connect, self._client.on_message = self._on_connect, self._on_message
        self._client.on_subscribe = lambda *_: self._answers.put("")

    # paho's thread calls these two.
    def _on_connect(self, client: Any, _data: Any, _flags: Any, code: Any, *_: Any) -> None:
        if code == 0:
            client.subscribe([(self._topic, 1), (self._topic + "/+", 1)])
        else:
            self._answers.put(str(code))

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        if message.topic[len(self._topic) + 1 :] in NO_DEVICES:
            return
        while not self._closed:
            with contextlib.suppress(queue.Full):
                self._came.put(message.payload, timeout=_PAUSE_S)
                return

    def blocks(self) -> Generator[Block]:
        """As ``Feed``."""
        try:
            self._client.connect(self._broker.host, self._broker.port, keepalive=30)
            self._client.loop_start()
            answer = self._answers.get(timeout=TIMEOUT_S)
        except (OSError, queue.Empty) as error:
            self._client.loop_stop()
            reason = getattr(error, "strerror", None) or "it does not answer"
            raise DeviceFailed(f"The broker at {self._broker.where} cannot be reached: {reason}.") from None
        try:
            if answer:
                raise DeviceFailed(f"The broker at {self._broker.where} refuses the connection: {answer}.")
            yield from self._until_the_end()
        finally:
            self._closed = True
            self._client.disconnect()
            self._client.loop_stop()

    def _until_the_end(self) -> Generator[Block]:
        end = None if self._seconds is None else time.monotonic() + self._seconds
        while end is None or time.monotonic() < end:
            records = self._waiting()
            mine = [record for record in records if self._records.mine(record)]
            self.refused += len(records) - len(mine)
            if mine:
                yield self._records.block(mine)

    def _waiting(self) -> list[bytes]:
        """What came by now, up to a block; waits a moment for the first."""
        records = []
        try:
            records.append(self._came.get(timeout=_PAUSE_S))
            while len(records) < ROWS:
                records.append(self._came.get_nowait())
        except queue.Empty:
            pass
        return records
