"""The pipe that records leave by: it holds a set of pictures, and a slow reader does not look like a hang."""

import fcntl
import os
import select
from typing import Any, Callable

from edgeveil.edge_runtime.storage.descriptor import write_all

_F_SETPIPE_SZ = 1031
_BYTES = 1 << 20


def widen(handle: int) -> None:
    """Make a pipe hold a few sets of pictures, where the system gives one, so that no reader has to be waited for."""
    try:
        fcntl.fcntl(handle, _F_SETPIPE_SZ, _BYTES)
    except OSError:
        pass


class Pipe(object):
    """A pipe whose writer tells the watchdog that it lives (``beat``) while it waits for a slow reader."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.beat: Callable[[], Any] = lambda: None
        os.set_blocking(handle, False)

    def write(self, data: bytes) -> None:
        """All of ``data``; raises ``BrokenPipeError`` where the reader has gone."""
        write_all(self._handle, data, wait=self._wait)

    def _wait(self, handle: int) -> None:
        self.beat()
        select.select([], [handle], [], 1.0)
