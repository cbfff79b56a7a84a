"""``mqtt://HOST/TOPIC`` and ``mqtts://``: records of every device that publishes to TOPIC or to TOPIC/DEVICE.

The options are those of the runtime's sink of the same name: user, password_file, ca, cert, key, client_id.
"""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Generator

from edgeveil.trainer.collect.feeds.blocks import ROWS, Block
from edgeveil.trainer.collect.feeds.records import Records
from edgeveil.trainer.collect.feeds.subscription import Subscription

_WAITING = 4 * ROWS  # records between the connection and the estimate; the broker keeps the others
_PAUSE_S = 0.2


class MqttFeed:
    """Ends after ``seconds``, or never where None. Raises ``BadInput``, ``DeviceFailed``."""

    def __init__(self, uri: str, records: Records, *, seconds: float | None) -> None:
        self.refused = 0
        self._records, self._seconds = records, seconds
        self._closed = False
        self._came: queue.Queue[bytes] = queue.Queue(_WAITING)
        self._subscription = Subscription(uri, self._take, topic_too=True)

    # The connection's thread calls this.
    def _take(self, _device: str, payload: bytes) -> None:
        while not self._closed:
            with contextlib.suppress(queue.Full):
                self._came.put(payload, timeout=_PAUSE_S)
                return

    def blocks(self) -> Generator[Block]:
        """As ``Feed``."""
        self._subscription.open()
        try:
            yield from self._until_the_end()
        finally:
            self._closed = True
            self._subscription.close()

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
