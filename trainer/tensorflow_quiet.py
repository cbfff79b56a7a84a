"""Keep a command's output for what it has to say: TensorFlow and the converters print, from Python and C++ alike."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator

SHOWN_BYTES = 2000

# A failed assertion in C++ ends this process at once. This one, beside it, then shows what was said before.
_IF_CRASHED = f'read -r ended || tail -c {SHOWN_BYTES} "$0" >&2; rm -f "$0"'


def quiet_process() -> None:
    """Set up a command's process: TensorFlow logs nothing, and Python shows no warnings, which are for programmers.

    ``TF_CPP_MIN_LOG_LEVEL`` and ``PYTHONWARNINGS`` in the environment take precedence.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Send what is printed, to stdout or stderr, to a temporary file; show its end on stderr where the block fails.

    It is shown as well where the block ends the process. ``sys.stdout`` alone would not do: TensorFlow's converter
    writes from C++, to the file descriptors.
    """
    _flush()
    kept = [os.dup(1), os.dup(2)]
    with _spill() as spilled:
        text = io.TextIOWrapper(io.FileIO(os.dup(spilled), "ab"), write_through=True)
        try:
            for descriptor in (1, 2):
                os.dup2(spilled, descriptor)
            with text, contextlib.redirect_stdout(text):
                yield
        except BaseException:
            _flush()
            end = os.lseek(spilled, 0, os.SEEK_END)
            os.write(kept[1], os.pread(spilled, SHOWN_BYTES, max(0, end - SHOWN_BYTES)))
            raise
        finally:
            _flush()
            for descriptor, old in zip((1, 2), kept, strict=True):
                os.dup2(old, descriptor)
                os.close(old)


@contextlib.contextmanager
def _spill() -> Iterator[int]:
    """A temporary file's descriptor, and a process that shows the file's end if this one dies before the block ends."""
    descriptor, path = tempfile.mkstemp()
    watch = subprocess.Popen(  # noqa: S603
        ["/bin/sh", "-c", _IF_CRASHED, path],
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is not for it
    )
    try:
        yield descriptor
    finally:
        os.close(descriptor)
        watch.communicate(b"ended\n")


def load_tensorflow() -> None:
    """Import TensorFlow without its notice, which it prints on stderr whatever its log level."""
    if "tensorflow" not in sys.modules:
        with quiet():
            importlib.import_module("tensorflow")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
