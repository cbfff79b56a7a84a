"""A user's own source, sinks, backend: ``ramp:N`` counts up, ``tally:FILE`` writes sums, ``collector://`` sends."""

import socket
import sys
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.backends.numpy_linear import NumPy
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.sinks import uri as addresses
from edgeveil.edge_runtime.sinks.base import Sink
from edgeveil.edge_runtime.sinks.network_base import OPTIONS, NetworkSink
from edgeveil.edge_runtime.sinks.wire import json_bytes
from edgeveil.edge_runtime.sources.base import Source, now_ns


class TwiceChecked(NumPy):
    """Our numpy backend, which computes each block twice and compares."""

    name = "twice-checked"

    def _infer(self, feeds):
        first, second = super()._infer(feeds), super()._infer(feeds)
        if not all(np.array_equal(*pair) for pair in zip(first, second)):
            raise RuntimeError("two results differ")
        return first


class RampSource(Source):
    """N frames, each of its number; ``-``: N is a line of the standard input."""

    schemes = ("ramp",)
    forms = ("ramp:N", "ramp:-")
    help = "N frames, each of its number"
    file = True  # all of them are there at once
    calls = ""

    def __init__(self, where, spec):
        self.size = int(sys.stdin.readline() if where == "-" else where)
        self._spec, self._next = spec, 0
        self.name = "ramp"

    def next(self):
        """The next frame, None after the last."""
        index, self._next = self._next, self._next + 1
        if index >= self.size:
            return None
        data = np.full(self._spec["shape"], index, self._spec["dtype"])
        data[index % len(data)] += 1  # one feature is the largest
        return RawFrame(data, index, now_ns())


class TallySink(Sink):
    """A line a frame: its number and the sum of its main output."""

    schemes = ("tally",)
    forms = ("tally:FILE",)
    help = "a line a frame: its number and sum"
    file = True

    def __init__(self, path, outputs):
        self._path, self._name = Path(path), outputs[0].name
        self._file = self._path.open("w")

    def _write(self, frame):
        self._file.write(f"{frame.index} {int(frame.outputs[self._name].sum())}\n")

    def close(self):
        """Close the file."""
        self._file.close()

    def discard(self):
        """Delete the file."""
        self._file.close()
        self._path.unlink()


class CollectorSink(NetworkSink):
    """Bare records, one after the other, to ``collector://HOST:PORT``."""

    schemes = ("collector",)
    forms = ("collector://HOST:PORT",)
    help = "bare records on one connection"

    def __init__(self, uri, outputs, manifest, settings):
        host, port, _, options = addresses.address(uri, 0, OPTIONS)
        self._address = (host, port)
        super().__init__(f"collector://{host}:{port}", outputs, manifest, dict(settings, **options))

    def _connect(self):
        self._connection = socket.create_connection(self._address, 10)

    def _send(self, record):
        self._connection.sendall(record)
        return True

    def _send_status(self, document):
        json_bytes(document)  # its receiver takes records alone
