"""Keep stdout for the one document that belongs there: converters print, from Python and from C++ alike."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import tempfile
from collections.abc import Iterator

SHOWN_BYTES = 2000


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Send what is printed, to stdout or stderr, to a temporary file; show its end on stderr where the block fails.

    ``sys.stdout`` alone would not do: TensorFlow's converter writes from C++, to the file descriptors.
    """
    _flush()
    kept = [os.dup(1), os.dup(2)]
    with tempfile.TemporaryFile() as spilled:
        text = io.TextIOWrapper(io.FileIO(os.dup(spilled.fileno()), "ab"), write_through=True)
        try:
            for descriptor in (1, 2):
                os.dup2(spilled.fileno(), descriptor)
            with text, contextlib.redirect_stdout(text):
                yield
        except BaseException:
            _flush()
            spilled.seek(max(0, spilled.seek(0, os.SEEK_END) - SHOWN_BYTES))
            os.write(kept[1], spilled.read())
            raise
        finally:
            _flush()
            for descriptor, old in zip((1, 2), kept, strict=True):
                os.dup2(old, descriptor)
                os.close(old)


def load_tensorflow() -> None:
    """Import TensorFlow without its greeting, which it prints on stderr whatever its log level."""
    with quiet():
        importlib.import_module("tensorflow")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
