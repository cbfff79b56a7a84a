"""From thread to thread: a place where the newest wins, and one where nothing is lost."""

import collections
import threading
from typing import Any


class Latest(object):
    """Place for one frame. ``put`` never waits; what it pushes out is handed back."""

    def __init__(self) -> None:
        self._held: Any = collections.deque(maxlen=1)
        self._came = threading.Condition()
        self._over = False

    def put(self, item: Any) -> Any:
        """Hold ``item``; returns what was held until now, or None."""
        with self._came:
            old = self._held.pop() if self._held else None
            self._held.append(item)
            self._came.notify()
        return old

    def take(self, timeout_s: float) -> Any:
        """What is held, or None where nothing came in time, or no more will."""
        with self._came:
            if not self._held and not self._over:
                self._came.wait(timeout_s)
            return self._held.pop() if self._held else None

    def end(self) -> None:
        """Nothing more comes: nobody need wait for it."""
        with self._came:
            self._over = True
            self._came.notify()


class Baton(object):
    """One thing from one thread to another, without loss. ``put`` waits until the one before has been taken."""

    def __init__(self) -> None:
        # Bare locks: a queue's conditions would cost more than a small model.
        self._free, self._there = threading.Lock(), threading.Lock()
        self._there.acquire()
        self._item: Any = None

    def put(self, item: Any, timeout_s: float) -> bool:
        """Whether there was place for ``item`` in time."""
        if not self._free.acquire(timeout=timeout_s):
            return False
        self._item = item
        self._there.release()
        return True

    def get(self) -> Any:
        """Wait for the next one."""
        self._there.acquire()
        item, self._item = self._item, None
        self._free.release()
        return item
