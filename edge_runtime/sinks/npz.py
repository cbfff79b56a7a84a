"""``npz:FILE``: all frames in one .npz file, written whole when the run ends, however it ends."""

import os
from typing import Any, Dict

import numpy as np

from edge_runtime.errors import BadInput
from edge_runtime.files import atomic_path
from edge_runtime.sinks.base import Sink


class NpzSink(Sink):
    """Writes ``x`` (the main output), ``index`` int64 (the source's numbers) and every other output by its name.

    The frames stay in memory until ``close``: for a long run use ``images:DIR``.
    """

    def __init__(self, path, outputs):
        folder = os.path.dirname(os.path.abspath(path))
        # Found out now, not when an hour of frames waits to be written.
        if not os.path.isdir(folder) or os.path.isdir(path):
            raise BadInput("expected a file name in a folder that exists; got {}".format(path))
        self._path = path
        self._outputs = outputs
        self._index = []
        self._frames = []

    def _write(self, frame):
        self._index.append(frame.index)
        self._frames.append(frame.outputs)

    def close(self):
        arrays: Dict[str, Any] = {"index": np.array(self._index, np.int64)}
        for place, output in enumerate(self._outputs):
            name = output["name"] if output["name"] not in ("x", "index", "file") else "output_" + output["name"]
            values = np.empty([len(self._frames)] + list(output["shape"]), output["dtype"])
            for row, frame in enumerate(self._frames):
                values[row] = frame[output["name"]]
            arrays["x" if place == 0 else name] = values
        with atomic_path(self._path) as temporary, open(temporary, "wb") as file:
            np.savez(file, **arrays)

    def discard(self):
        self._index, self._frames = [], []
