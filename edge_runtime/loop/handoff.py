"""Hand-offs between threads: a slot that keeps the newest item, and one that loses nothing."""

import threading
from typing import Any


class LatestSlot(object):
    """A slot for one item. ``put`` never waits; it returns the item that it replaced. One thread takes."""

    def __init__(self) -> None:
        self._item: Any = None
        # Bare locks, as below; ``there`` is free while an item is there, and after the end.
        self._swap, self._there = threading.Lock(), threading.Lock()
        self._there.acquire()
        self._over = False

    def put(self, item: Any) -> Any:
        """Store ``item``; returns the item that was still there, or None."""
        with self._swap:
            old, self._item = self._item, item
            self._announce()
        return old

    def take(self, timeout_s: float) -> Any:
        """Take the item; None if none came in time, or after ``end``."""
        if not self._over:
            self._there.acquire(timeout=timeout_s)
        with self._swap:
            item, self._item = self._item, None
            self._there.acquire(False)  # one that came since the lock was taken goes with it
            return item

    def end(self) -> None:
        """Wake the waiting thread: no more items will come."""
        with self._swap:
            self._over = True
            self._announce()

    def _announce(self) -> None:
        if self._there.locked():
            self._there.release()


class Handoff(object):
    """A slot for one item that loses nothing: ``put`` waits until the item before has been taken."""

    def __init__(self) -> None:
        # A queue's conditions would cost more than a small model.
        self._free, self._there = threading.Lock(), threading.Lock()
        self._there.acquire()
        self._item: Any = None

    def put(self, item: Any, timeout_s: float) -> bool:
        """Store ``item``; False if the slot was not free in time."""
        if not self._free.acquire(timeout=timeout_s):
            return False
        self._item = item
        self._there.release()
        return True

    def get(self) -> Any:
        """Wait for the next item and take it."""
        self._there.acquire()
        item, self._item = self._item, None
        self._free.release()
        return item
