"""Keep the output of TensorFlow and the converters, from Python and C++, out of a command's own output."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

SHOWN_BYTES = 2000
# Keras imports them where they are installed, for wrappers, pictures and tables that no command asks of it: a third of
# the time that TensorFlow takes to start. What needs one imports it itself, later.
UNUSED = ("matplotlib", "pandas", "sklearn", "scipy", "cv2", "IPython")
_command = False  # whether this process is one of a command, and no user's own code will ask Keras for these

# A failed assertion in C++ ends this process at once. A second process then shows the output from before.
_IF_CRASHED = f'read -r ended || tail -c {SHOWN_BYTES} "$0" >&2; rm -f "$0"'


def quiet_process() -> None:
    """Set up a command's process: no TensorFlow log, and no Python warnings, which are for programmers.

    ``TF_CPP_MIN_LOG_LEVEL`` and ``PYTHONWARNINGS`` in the environment take precedence.
    """
    global _command
    _command = True
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Redirect stdout and stderr to a temporary file; show its end on stderr if the block fails or ends the process.

    Redirecting ``sys.stdout`` is not enough: TensorFlow's converter writes to the file descriptors, from C++.
    """
    _flush()
    originals = [os.dup(1), os.dup(2)]
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
            os.write(originals[1], os.pread(spilled, SHOWN_BYTES, max(0, end - SHOWN_BYTES)))
            raise
        finally:
            _flush()
            for descriptor, old in zip((1, 2), originals, strict=True):
                os.dup2(old, descriptor)
                os.close(old)


@contextlib.contextmanager
def _spill() -> Iterator[int]:
    """A temporary file's descriptor; another process shows the file's end if this one dies within the block."""
    descriptor, path = tempfile.mkstemp()
    watch = subprocess.Popen(  # noqa: S603
        ["/bin/sh", "-c", _IF_CRASHED, path],
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C must not end it
    )
    try:
        yield descriptor
    finally:
        os.close(descriptor)
        watch.communicate(b"ended\n")


def load_tensorflow() -> None:
    """Import TensorFlow without the notice that it prints to stderr at every log level, and without its warnings later.

    OpenMP, which scikit-learn will load, is set not to spin while its threads wait (``OMP_WAIT_POLICY`` in the
    environment takes precedence): on busy cores boosted trees take a tenth of the time. Python's collector of garbage
    rests during the import, which takes three quarters of the time then, and passes over what was imported later: a
    small training takes three quarters of the time.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if "tensorflow" not in sys.modules:
        with quiet(), _without(UNUSED if _command else ()), _no_collection():
            tensorflow = importlib.import_module("tensorflow")
        tensorflow.get_logger().setLevel("ERROR")  # retracing and the like are for programmers


@contextlib.contextmanager
def _without(names: Sequence[str]) -> Iterator[None]:
    """Within the block these cannot be imported, unless they are by now."""
    modules: dict[str, Any] = sys.modules
    absent = [name for name in names if name not in modules]
    modules.update(dict.fromkeys(absent))
    try:
        yield
    finally:
        for name in absent:
            del modules[name]


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Within the block no garbage is collected; what it leaves is never looked at again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
