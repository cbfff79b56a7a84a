"""Recordings in the column x of a Parquet file: bytes, row by row, or lists of numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.sources.base import Sensor, Source, now_ns
from edgeveil.trainer.publish.table_files import pyarrow

COLUMN = "x"
_AT_ONCE = 256


def open_parquet(path: Path) -> Any:
    """A ``pyarrow.parquet.ParquetFile`` with frames. Raises ``BadInput`` where there is none."""
    arrow = pyarrow()
    try:
        file = arrow.parquet.ParquetFile(path)
    except (OSError, arrow.ArrowInvalid):
        raise BadInput(f"Recordings were expected in {path}, and no Parquet file can be read there.") from None
    if COLUMN not in file.schema_arrow.names:
        raise BadInput(f'{path} has no column "{COLUMN}": expected the frames there, as bytes or lists of numbers.')
    return file


class ParquetFrames(Source):
    """Frames of the sensor's shape and type; ``index`` is the row. Raises ``BadInput`` where there is no such file."""

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
            self._batch = next(self._batches).column(0)
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
