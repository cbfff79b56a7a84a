"""What leaves of a frame, as a column of Parquet: bytes, or numbers where an output has no shape."""

from __future__ import annotations

from collections.abc import Sequence
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

    def array(self, values: Sequence[np.ndarray]) -> Any:
        """A pyarrow array of these outputs (n, *shape)."""
        arrow = pyarrow()
        together = b"".join(value.tobytes() for value in values)
        if not self.shape:
            return arrow.array(np.frombuffer(together, self.dtype))
        return arrow.FixedSizeBinaryArray.from_buffers(
            arrow.binary(self.size), len(values), [None, arrow.py_buffer(together)]
        )
