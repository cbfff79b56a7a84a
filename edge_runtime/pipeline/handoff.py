"""Hand-offs between threads: a place that keeps the newest items, and a slot that loses nothing."""

import collections
import threading
from typing import Any, Deque


class Newest(object):
    """A place for the newest ``most`` items, in order. ``put`` never waits; it returns the item that no longer fits.

    One thread takes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: Deque[Any] = collections.deque()
        # Bare locks, as below; ``there`` is free while an item is there, and after the end.
        self._swap, self._there = threading.Lock(), threading.Lock()
        self._there.acquire()
        self._over = False

    def put(self, item: Any) -> Any:
        """Store ``item``; returns the oldest one if there were as many as there may be, or None."""
        with self._swap:
            self._items.append(item)
            old = self._items.popleft() if len(self._items) > self._most else None
            self._announce()
        return old

    def take(self, timeout_s: float) -> Any:
        """Take the oldest item; None if none came in time, or after ``end``."""
        if not self._over:
            self._there.acquire(timeout=timeout_s)
        with self._swap:
            item = self._items.popleft() if self._items else None
            self._there.acquire(False)  # one that came since the lock was taken, which stands for all
            if self._items:
                self._announce()
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
    """A slot for one item that loses nothing: ``put`` waits until the item before has been taken. One thread puts.

    ``idle`` is whether the thread that takes has come back for the next item after all that it was given.
    """

    def __init__(self) -> None:
        # A queue's conditions would cost more than a small model.
        self._free, self._there = threading.Lock(), threading.Lock()
        self._there.acquire()
        self._item: Any = None
        self._given, self._done = 0, -1  # each of them is changed by one thread

    @property
    def idle(self) -> bool:
        """See the class; for the thread that puts."""
        return self._given == self._done

    def put(self, item: Any, timeout_s: float) -> bool:
        """Store ``item``; False if the slot was not free in time."""
        if not self._free.acquire(timeout=timeout_s):
            return False
        self._given += 1
        self._item = item
        self._there.release()
        return True

    def get(self) -> Any:
        """Wait for the next item and take it."""
        self._done += 1
        self._there.acquire()
        item, self._item = self._item, None
        self._free.release()
        return item
