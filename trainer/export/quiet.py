"""Keep stdout for the one document that belongs there: converters print, from Python and from C++ alike."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Send what file descriptors 1 and 2 get to a temporary file; show it on stderr only where the block fails.

    At the level of descriptors, because TensorFlow's converter writes from C++ past ``sys.stdout``.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [os.dup(1), os.dup(2)]
    with tempfile.TemporaryFile() as spilled:
        try:
            for descriptor in (1, 2):
                os.dup2(spilled.fileno(), descriptor)
            yield
        except BaseException:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            spilled.seek(0)
            os.write(kept[1], spilled.read())
            raise
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            for descriptor, old in zip((1, 2), kept, strict=True):
                os.dup2(old, descriptor)
                os.close(old)
