"""The last message of each device that a broker has kept."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from edgeveil.trainer.collect.feeds.subscription import Subscription

QUIET_S = 2.0  # a broker sends what it has kept at once: when nothing has come for this long, that was all


def retained(uri: str, expected: Iterable[str]) -> dict[str, bytes]:
    """What is kept on TOPIC/NAME, by NAME; returns early once all ``expected`` names have come.

    Raises ``BadInput``, and ``DeviceFailed`` where no broker answers.
    """
    found: dict[str, bytes] = {}
    missing, came = set(expected), threading.Event()

    def take(name: str, payload: bytes) -> None:
        found[name] = payload
        came.set()

    subscription = Subscription(uri, take)
    subscription.open()
    try:
        while missing - set(found) and came.wait(QUIET_S):
            came.clear()
    finally:
        subscription.close()
    return dict(found)
