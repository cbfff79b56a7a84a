"""``npz:FILE``: what the runtime's sink of the same name wrote, one file a device."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Output
from edgeveil.trainer.collect.feeds.blocks import ROWS, Block, of_file
from edgeveil.trainer.datasets.npz_errors import UNREADABLE, why


class NpzFeed:
    """The column of ``output``, which is called x where the bundle names it first, and ``index``.

    Frames of one index are those of its slots, in their order. Raises ``BadInput`` for a file that is not of this
    bundle.
    """

    def __init__(self, path: Path, output: Output, main: bool, *, file: int) -> None:
        self.refused = 0
        self._file = file
        column = "x" if main else output.name
        try:
            with np.load(path, allow_pickle=False) as archive:
                self._reports, self._index = archive[column], archive["index"]
        except UNREADABLE as error:
            raise BadInput(
                f"A file of reports with the arrays {column} and index was expected at {path}: {why(error)}. Name what "
                "edgeveil-edge run --sink npz:FILE wrote."
            ) from None
        wanted = (np.dtype(output.dtype), output.shape)
        if (self._reports.dtype, self._reports.shape[1:]) != wanted or self._reports.ndim == 0:
            got = f"{self._reports.dtype} {self._reports.shape[1:]}"
            raise BadInput(
                f"Reports of {wanted[0]} {wanted[1]} were expected in {path}; it has {got}: another bundle's."
            )
        if self._index.shape != (len(self._reports),) or self._index.dtype != np.int64:
            raise BadInput(f"An index int64 for each of the {len(self._reports)} reports was expected in {path}.")

    def blocks(self) -> Generator[Block]:
        """As ``Feed``."""
        slot = _turn(self._index)
        for first in range(0, len(self._reports), ROWS):
            part = slice(first, first + ROWS)
            yield of_file(self._reports[part], self._file, first, slot[part], self._index[part])


def _turn(index: np.ndarray) -> np.ndarray:
    """How many rows before it have the same index, for each row; as int64 (n,)."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(index)])
    turn = np.empty(len(index), np.int64)
    turn[order] = np.arange(len(index)) - np.repeat(starts, np.diff(np.append(starts, len(index))))
    return turn
