"""What every source is: opened by its constructor, asked for one frame after the other, closed."""

import time
from typing import Optional

from edge_runtime.errors import DeviceFailed


class SourceFailed(DeviceFailed):
    """The source broke down: no more frames will come."""


class Source(object):
    """Frames one after the other. A subclass gives ``next``; ``close`` where there is something to let go.

    ``size`` is how many frames there will be, or None where nobody knows.
    """

    size: Optional[int] = None
    blocks = False  # whether it is asked for blocks: ``next_block`` and ``refused`` (see ``lines``), not ``next``

    def next(self):
        """The next ``RawFrame`` with its number and capture time, or None after the last.

        Raises ``FrameDropped`` where one frame could not be read and the next may be, ``SourceFailed`` where none can.
        """
        raise NotImplementedError

    def close(self):
        """Let files and devices go."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def now_ns():
    """Nanoseconds of a clock that never goes back; ``time.monotonic_ns`` is not in Python 3.6."""
    return int(time.monotonic() * 1e9)
