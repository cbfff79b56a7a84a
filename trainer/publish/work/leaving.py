"""What leaves of a frame, as a column of Parquet: bytes, or numbers where an output has no shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from edgeveil.trainer.publish.table_files import pyarrow


@dataclass(frozen=True)
class Leaving:
    """One output of a pipeline."""

    column: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Bytes of one."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def document(self) -> dict[str, Any]:
        """As ``publication.json`` has it."""
        return {"column": self.column, "shape": list(self.shape), "dtype": str(self.dtype)}

    def empty(self) -> np.ndarray:
        """No outputs (0, *shape)."""
        return np.empty((0, *self.shape), self.dtype)

    def array(self, values: np.ndarray) -> Any:
        """A pyarrow array of these outputs (n, *shape)."""
        arrow = pyarrow()
        if not self.shape:
            return arrow.array(values)
        together = arrow.py_buffer(np.ascontiguousarray(values))
        return arrow.FixedSizeBinaryArray.from_buffers(arrow.binary(self.size), len(values), [None, together])
