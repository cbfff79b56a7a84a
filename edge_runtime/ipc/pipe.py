"""The pipe for records: it holds a set of pictures, and a slow reader does not look like a hang."""

import fcntl
import os
import select
from typing import Any, Callable

from edgeveil.edge_runtime.storage.descriptor import write_all

_F_SETPIPE_SZ = 1031
_BYTES = 1 << 20


def widen(handle: int) -> None:
    """Enlarge a pipe to hold a few sets of pictures, if the system allows it, so that its writer need not wait."""
    try:
        fcntl.fcntl(handle, _F_SETPIPE_SZ, _BYTES)
    except OSError:
        pass


class Pipe(object):
    """A pipe whose writer calls ``beat``, for the watchdog, while it waits for a slow reader."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.beat: Callable[[], Any] = lambda: None
        os.set_blocking(handle, False)

    def write(self, data: bytes) -> None:
        """Write all of ``data``; raises ``BrokenPipeError`` if the reader has closed the pipe."""
        write_all(self._handle, data, wait=self._wait)

    def _wait(self, handle: int) -> None:
        self.beat()
        select.select([], [handle], [], 1.0)
