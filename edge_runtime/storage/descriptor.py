"""Writing to file descriptors."""

import os
from typing import Callable, Optional


def write_all(handle: int, data: bytes, *, wait: Optional[Callable[[int], None]] = None) -> None:
    """Write all of ``data`` to a descriptor; raises ``OSError``, such as ``BrokenPipeError``.

    ``wait(handle)`` is called when a non-blocking descriptor is full, and returns when writing may be tried again.
    """
    left = memoryview(data)
    while len(left):
        try:
            left = left[os.write(handle, left) :]
        except BlockingIOError:
            if wait is None:
                raise
            wait(handle)
