"""``csv:FILE``, or ``-`` for standard output: the main output of each frame as a line of numbers, as it comes."""

import contextlib
import os
import sys
from typing import IO, List

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.frames import PerturbedFrame
from edgeveil.edge_runtime.manifest.manifest import Output
from edgeveil.edge_runtime.sinks.base import Sink, abandon
from edgeveil.edge_runtime.util.atomic import WriteFailed, atomic_path, open_stream, writing


class CsvSink(Sink):
    """Enough digits to read the same number back.

    A file appears whole when the run ends; a pipe or a device gets every block at once, and keeps it.
    """

    schemes = ("csv",)
    forms = ("csv:FILE", "csv:-")
    help = (
        "the main output, one vector a line, exact digits. A file appears when the run has ended; standard output, "
        "pipes and devices get each block at once; `-` moves the summary to stderr"
    )
    file = True

    def __init__(self, path: str, outputs: List[Output]) -> None:
        main = outputs[0]
        if len(main.shape) > 1:
            raise BadInput("lines hold vectors, and {} has the shape {}: use npz:FILE".format(main.name, main.shape))
        self._name = main.name
        dtype = np.dtype(main.dtype)
        form = "%d" if dtype.kind in "iu" else "%.9g" if dtype.itemsize <= 4 else "%.17g"
        self._form = ",".join([form] * (main.shape[0] if main.shape else 1))
        self._lines: List[str] = []
        self._path, self._whole = path, contextlib.ExitStack()
        if path == "-":
            self._file: IO[bytes] = sys.stdout.buffer
            self._streams = True
            return
        stream = open_stream(path)
        self._streams = stream is not None
        if stream is None:
            if not os.path.isdir(os.path.dirname(os.path.abspath(path))) or os.path.isdir(path):
                raise BadInput("expected a file name in a folder that exists; got {}".format(path))
            stream = open(self._whole.enter_context(atomic_path(path, keep_old=True)), "wb")  # noqa: SIM115 - by the stack
        self._file = self._whole.enter_context(stream)

    def _write(self, frame: PerturbedFrame) -> None:
        self._lines.append(self._form % tuple(frame.outputs[self._name].ravel().tolist()))

    def flush(self) -> None:
        """Write the lines so far. Raises ``WriteFailed`` where the disk is full, and removes the file."""
        if not self._lines:
            return
        self._lines.append("")
        data, self._lines = "\n".join(self._lines).encode("ascii"), []
        try:
            with writing(self._path, streams=self._streams):
                self._file.write(data)
                if self._streams:
                    self._file.flush()
        except WriteFailed:
            # The file may end in the middle of a line.
            self.discard()
            raise

    def close(self) -> None:
        """Write the last lines; a file gets its name."""
        self.flush()
        with writing(self._path):
            self._whole.close()

    def discard(self) -> None:
        """Forget the lines not yet written, and the file; a pipe keeps what it got."""
        self._lines = []
        abandon(self._whole)
