"""The pipe that records leave by: wide enough for a set of pictures, and written to with a beating heart."""

import fcntl
import os
import select
from typing import Any, Callable

_F_SETPIPE_SZ = 1031
_BYTES = 1 << 20


def widen(handle: int) -> None:
    """Make a pipe hold a few sets of pictures, where the system gives one, so that no reader has to be waited for."""
    try:
        fcntl.fcntl(handle, _F_SETPIPE_SZ, _BYTES)
    except OSError:
        pass


class Pipe(object):
    """A pipe that is waited for with a beating heart: a slow reader is no reason for the watchdog to bite."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.beat: Callable[[], Any] = lambda: None
        os.set_blocking(handle, False)

    def write(self, data: bytes) -> None:
        """All of ``data``; raises ``BrokenPipeError`` where nobody reads any more."""
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._handle, left) :]
            except BlockingIOError:
                self.beat()
                select.select([], [self._handle], [], 1.0)
