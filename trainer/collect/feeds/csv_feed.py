"""``csv:-`` and ``csv:FILE``: a report a line, as the runtime's sink of the same name writes them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Generator
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Output
from edgeveil.trainer.collect.feeds.blocks import ROWS, Block, of_file


class CsvFeed:
    """The lines of a file or, for ``-``, of stdin. A line that is no report is counted. Raises ``BadInput``."""

    def __init__(self, path: str, output: Output, main: bool, *, file: int) -> None:
        if not main or len(output.shape) > 1:
            raise BadInput(
                f"Lines hold the bundle's first output alone, and as a vector; {output.name} is not in them."
            )
        self.refused = 0
        self._path, self._file = path, file
        self._values = output.shape[0] if output.shape else 1
        self._shape, self._dtype = output.shape, np.dtype(output.dtype)

    def blocks(self) -> Generator[Block]:
        """As ``Feed``."""
        if self._path == "-":
            yield from self._of(sys.stdin)
            return
        try:
            with Path(self._path).open(encoding="ascii", errors="replace") as file:
                yield from self._of(file)
        except OSError as error:
            raise BadInput(f"A file of reports was expected at {self._path}: {error.strerror}.") from None

    def _of(self, file: TextIO) -> Generator[Block]:
        first = 0
        while lines := list(islice(file, ROWS)):
            reports = self._parsed(lines)
            self.refused += len(lines) - len(reports)
            index = np.arange(first, first + len(reports))
            yield of_file(reports, self._file, first, np.zeros(len(reports)), index)
            first += len(reports)

    def _parsed(self, lines: list[str]) -> np.ndarray:
        """Those lines that are reports, (n, *shape) in the dtype of the output."""
        try:
            values = self._numbers(lines)
        except ValueError:
            values = np.concatenate([self._line(line) for line in lines])
        if self._dtype.kind in "iu":
            limits = np.iinfo(self._dtype)
            values = values[((values >= limits.min) & (values <= limits.max)).all(axis=1)]
        return values.astype(self._dtype).reshape((-1, *self._shape))

    def _line(self, line: str) -> np.ndarray:
        try:
            return self._numbers([line])
        except ValueError:
            return np.empty((0, self._values), np.int64)

    def _numbers(self, lines: list[str]) -> np.ndarray:
        """All lines as numbers (n, values); raises ``ValueError`` where one is not so many."""
        kind = np.int64 if self._dtype.kind in "iu" else np.float64
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of lines that are empty, which are counted
            values = np.loadtxt(lines, kind, comments=None, delimiter=",", ndmin=2)
        if values.shape != (len(lines), self._values):
            raise ValueError
        return values
