"""Writing to file descriptors."""

import os
from typing import Callable


def _wait_not(_handle: int) -> None:
    raise BlockingIOError


def write_all(handle: int, data: bytes, *, wait: Callable[[int], None] = _wait_not) -> None:
    """Write all of ``data`` to a descriptor; raises ``OSError``, such as ``BrokenPipeError``.

    ``wait`` is called with a descriptor that does not block and is full; it returns when writing may be tried again.
    """
    left = memoryview(data)
    while len(left):
        try:
            left = left[os.write(handle, left) :]
        except BlockingIOError:
            wait(handle)
