"""The broker between a training and its devices: rounds go to TOPIC/model, retained; reports come on TOPIC/DEVICE."""

from __future__ import annotations

import queue
from typing import Any, NamedTuple

from edgeveil.trainer.collect.feeds.subscription import Subscription

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
        self._model = b""
        self._came: queue.Queue[Message] = queue.Queue(_WAITING)
        self._subscription = Subscription(
            uri, self._take, name=f"edgeveil-federate-{run}", session=True, connected=self._publish_again
        )
        self._subscription.open()

    # The connection's thread calls these two.
    def _take(self, device: str, payload: bytes) -> None:
        self._came.put(Message(device, payload))

    def _publish_again(self) -> None:
        if self._model:  # a broker without a disk forgot it
            self._publish()

    def _publish(self) -> Any:
        return self._subscription.client.publish(f"{self._subscription.topic}/{MODEL}", self._model, qos=1, retain=True)

    def publish(self, model: bytes) -> None:
        """Make this the round of the training, for devices that come later too; empty: there is none any more."""
        self._model = model
        self._publish()

    def next(self, timeout_s: float) -> Message | None:
        """The next message of a device, or None after that time."""
        try:
            return self._came.get(timeout=max(timeout_s, 0.0))
        except queue.Empty:
            return None

    def close(self) -> None:
        """Withdraw the round, as far as the broker is there, and leave."""
        self._model = b""
        withdrawn = self._publish()
        if self._subscription.client.is_connected():
            withdrawn.wait_for_publish(timeout=2.0)
        self._subscription.close()
