"""Recordings: their frames, what the table calls each frame, and their keyed fingerprint."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, FrameDropped, SourceFailed, reason
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import Manifest, expected
from edgeveil.edge_runtime.sources import open_source
from edgeveil.edge_runtime.sources.base import Sensor, Source, now_ns
from edgeveil.edge_runtime.sources.images import list_pictures
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.datasets.columns import nfc
from edgeveil.trainer.ext.publish.table_files import pyarrow

NPZ, PARQUET, COLUMN = "npz:", "parquet:", "x"
FrameNames = Sequence[str] | range
_READ, _AT_ONCE = 1 << 20, 256  # bytes of a file, rows of a Parquet file


def uri_of(text: str) -> str:
    """A source for ``--in``: a folder of pictures, npz:FILE, or FILE.parquet. Raises ``BadInput``.

    Its path is absolute: workers may have another folder.
    """
    if text.startswith(NPZ):
        return NPZ + str(Path(text.removeprefix(NPZ)).absolute())
    path = Path(text).absolute()
    if path.is_dir():
        return f"images:{path}"
    if path.suffix.lower() == ".parquet":
        return PARQUET + str(path)
    raise BadInput(
        f"Recordings were expected as a folder of pictures, npz:FILE or FILE.parquet; came {text}. Name one of them."
    )


def open_frames(uri: str, manifest: Manifest) -> Source:
    """The frames in their order, as the bundle takes them. Raises ``BadInput``."""
    if uri.startswith(PARQUET):
        spec = manifest.input
        sensor = expected(spec, None if spec.kind == "series" else manifest.capture)  # of a series, whole windows
        return ParquetFrames(Path(uri.removeprefix(PARQUET)), sensor)
    return open_source(uri, manifest.input, manifest.capture)


def names_in(source: Source) -> FrameNames:
    """What a table calls the frames: their files in the folder, or numbers."""
    return getattr(source, "files", None) or range(source.size or 0)


def matched(cells: Sequence[str], names: FrameNames, column: str) -> np.ndarray:
    """The number of each row's frame (rows,), from 0.

    Raises ``BadInput`` with the row of a cell that names no frame, or one that another row has; and where a frame has
    no row. No name of a file is shown.
    """
    places = {nfc(str(name)): place for place, name in enumerate(names)}
    wanted = f"a number from 0 to {len(places) - 1}" if isinstance(names, range) else "the name of a file in the folder"
    frames = np.empty(len(cells), np.int64)
    rows = np.full(len(places), -1)
    for row, cell in enumerate(cells):
        place = places.get(cell)
        if place is None:
            raise BadInput(f'Column "{column}", row {row + 1}: expected {wanted}. Correct the cell, or drop the row.')
        if rows[place] >= 0:
            raise BadInput(
                f'Column "{column}", row {row + 1}: it has the frame of row {rows[place] + 1}. A frame is one row\'s.'
            )
        frames[row], rows[place] = place, row
    if len(missing := np.flatnonzero(rows < 0)):
        raise BadInput(
            f"{counted(len(missing), 'frame has', 'frames have')} no row in the table, the first of them number "
            f"{missing[0]}. Add their "
            "rows, or take the frames away."
        )
    return frames


def fingerprint(key: bytes, uri: str) -> str:
    """HMAC-SHA256 of all recordings (or of a file, by "file:PATH"), by names and bytes: without the key no guess can be
    tested against it."""
    kind, _, where = uri.partition(":")
    names = sorted(list_pictures(where)[1]) if kind == "images" else [""]
    digest = hmac.new(key, digestmod="sha256")
    try:
        for name in names:
            path = Path(where, name)
            digest.update(f"{name}\0{path.stat().st_size}\0".encode())
            with path.open("rb") as file:
                while piece := file.read(_READ):
                    digest.update(piece)
    except OSError as error:
        raise BadInput(f"The recordings or their table cannot be read: {error.strerror}. Make them readable.") from None
    return digest.hexdigest()


def open_parquet(path: Path) -> Any:
    """A ``pyarrow.parquet.ParquetFile`` with frames. Raises ``BadInput`` where there is none."""
    arrow = pyarrow()
    try:
        file = arrow.parquet.ParquetFile(path)
    except (OSError, arrow.ArrowException):
        raise BadInput(f"Recordings were expected in {path}, and no Parquet file can be read there.") from None
    if COLUMN not in file.schema_arrow.names:
        raise BadInput(f'{path} has no column "{COLUMN}": expected the frames there, as bytes or lists of numbers.')
    return file


class ParquetFrames(Source):
    """Column x of a Parquet file: frames of the sensor's shape and type, as bytes (row by row) or lists of numbers;
    ``index`` is the row. Raises ``BadInput`` where there is no such file."""

    def __init__(self, path: Path, sensor: Sensor) -> None:
        self._shape, self._dtype = tuple(sensor["shape"]), np.dtype(sensor["dtype"])
        self._file = open_parquet(path)
        self.size = self._file.metadata.num_rows
        self._batches = self._file.iter_batches(_AT_ONCE, columns=[COLUMN])
        self._batch: Any = []
        self._begin = self._next = 0

    def next(self) -> RawFrame | None:
        """The next row. Raises ``FrameDropped`` for one of another size or type."""
        row = self._next
        if row >= (self.size or 0):
            return None
        self._next += 1
        while row >= self._begin + len(self._batch):
            self._begin += len(self._batch)
            try:
                self._batch = next(self._batches).column(0)
            except Exception as error:  # pyarrow's, of many kinds
                raise SourceFailed(
                    f'column "{COLUMN}" cannot be read from row {row + 1} on ({reason(error)})'
                ) from None
        value = self._batch[row - self._begin].as_py()
        return RawFrame(self._frame(value), row, now_ns())

    def skip(self, frames: int) -> None:
        """Pass over rows without making frames of them."""
        self._next += frames

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _frame(self, value: Any) -> np.ndarray:
        if isinstance(value, bytes):
            if len(value) != int(np.prod(self._shape)) * self._dtype.itemsize:
                raise FrameDropped("shape")
            return np.frombuffer(value, self._dtype).reshape(self._shape)
        try:
            given = np.array(value)
            frame = given.astype(self._dtype)
        except (TypeError, ValueError):
            raise FrameDropped("dtype") from None
        if given.size != int(np.prod(self._shape)):
            raise FrameDropped("shape")
        if self._dtype.kind != "f" and not np.array_equal(given, frame):
            raise FrameDropped("dtype")  # a cast would change the values
        return frame.reshape(self._shape)
