"""``npz:FILE``: all frames in one .npz file, written whole at the end of the run, also after an error."""

import errno
import os
import shutil
import tempfile
import zipfile
from typing import IO, List, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.frames import PerturbedFrame
from edgeveil.edge_runtime.manifest.manifest import Output
from edgeveil.edge_runtime.sinks.base import Sink
from edgeveil.edge_runtime.util.atomic import WriteFailed, atomic_path, file_place, writing

_Column = Tuple[str, np.dtype, Tuple[int, ...], IO[bytes]]  # name, type, shape of a row, the rows so far


def _scratch(path: str) -> IO[bytes]:
    """A nameless file in the folder of ``path``; raises ``WriteFailed``."""
    with writing(path):
        # Without a buffer, so that a full disk fails the frame that does not fit.
        return tempfile.TemporaryFile(dir=os.path.dirname(os.path.abspath(path)), buffering=0)


class NpzSink(Sink):
    """Writes ``x`` (the main output), ``index`` int64 (the source's numbers) and every other output by its name.

    Until ``close`` the frames are in nameless files in the same folder, so memory stays small however many come.
    """

    schemes = ("npz",)
    forms = ("npz:FILE",)
    help = (
        "`x`, the main output; `index`, the source's frame numbers; every other output by name. Written when the run "
        "ends, also by Ctrl-C"
    )
    file = True
    part = ".npz"
    twice = True

    def __init__(self, path: str, outputs: List[Output]) -> None:
        folder = os.path.dirname(os.path.abspath(path))
        # Checked now, not when an hour of frames waits to be written.
        if not os.path.isdir(folder) or os.path.isdir(path):
            raise BadInput("expected a file name in a folder that exists; got {}".format(path))
        file_place(path)
        self._path = path
        self._count = 0
        self._columns: List[_Column] = [("index", np.dtype(np.int64), (), _scratch(path))]
        for place, output in enumerate(outputs):
            name = output.name if output.name not in ("x", "index", "file") else "output_" + output.name
            column = ("x" if place == 0 else name, np.dtype(output.dtype), output.shape)
            self._columns.append(column + (_scratch(path),))
        self._names = [output.name for output in outputs]

    def _write(self, frame: PerturbedFrame) -> None:
        rows = [np.int64(frame.index)] + [frame.outputs[name] for name in self._names]
        try:
            with writing(self._path):
                for (_, _, _, file), row in zip(self._columns, rows):
                    data = row.tobytes()
                    if file.write(data) != len(data):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except WriteFailed:
            self._cut()
            raise
        self._count += 1

    def _cut(self) -> None:
        """Cut back to whole frames: columns of unequal length would give frames the wrong numbers."""
        for _, dtype, shape, file in self._columns:
            file.seek(self._count * dtype.itemsize * int(np.prod(shape, dtype=np.int64)))
            file.truncate()

    def close(self) -> None:
        """Write the file, whole or not at all."""
        whole = atomic_path(self._path, keep_old=True)
        with whole as temporary, zipfile.ZipFile(temporary, "w", allowZip64=True) as archive:
            for name, dtype, shape, file in self._columns:
                header = {"descr": dtype.str, "fortran_order": False, "shape": (self._count,) + shape}
                file.seek(0)
                with archive.open(name + ".npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array_header_1_0(member, header)
                    shutil.copyfileobj(file, member)
        self.discard()

    def discard(self) -> None:
        """Forget the frames; nothing is written."""
        for _, _, _, file in self._columns:
            file.close()
