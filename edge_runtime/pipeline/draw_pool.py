"""Draws made ahead, between two frames: the time that a rejection takes then says nothing of what was drawn."""

import threading
from typing import Callable, Tuple

import numpy as np

MOST_ROWS = 16  # frames that come at once; a later one draws for itself
MOST_BYTES = 2**20


class Pool(object):
    """The draws of one stage for a few frames. Each is handed out once, and overwritten where it lay.

    ``draw`` maps a shape (n, ...) to fresh values, ``shape`` is that of one frame. It is empty until ``fill``; a
    process that forks must not have filled it. Two threads may use it.
    """

    def __init__(self, draw: Callable[[Tuple[int, ...]], np.ndarray], shape: Tuple[int, ...]) -> None:
        self._draw, self._shape = draw, shape
        self._kept = draw((0,) + shape)
        self._have = 0
        self._lock = threading.Lock()

    def fill(self) -> None:
        """Draw for as many frames as there is room for."""
        row_bytes = self._kept.itemsize * int(np.prod(self._shape, dtype=np.int64))
        most = max(1, min(MOST_ROWS, MOST_BYTES // row_bytes))
        with self._lock:
            if self._have == most:
                return
            if len(self._kept) != most:
                self._kept = np.zeros((most,) + self._shape, self._kept.dtype)
            fresh = self._draw((most - self._have,) + self._shape)
            self._kept[self._have :] = fresh
            fresh.fill(0)
            self._have = most

    def take(self, n: int) -> np.ndarray:
        """Draws for n frames, (n, ...): those made ahead, and fresh ones for the rest."""
        with self._lock:
            used = slice(max(0, self._have - n), self._have)
            ahead = self._kept[used].copy()
            self._kept[used] = 0
            self._have = used.start
        if len(ahead) == n:
            return ahead
        fresh = self._draw((n - len(ahead),) + self._shape)
        return np.concatenate([ahead, fresh]) if len(ahead) else fresh
