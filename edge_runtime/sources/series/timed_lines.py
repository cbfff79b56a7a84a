"""``csv:FILE`` or ``csv:-`` for a series: a sample a line, its time in seconds first, then its channels."""

from typing import Dict, List, Optional

import numpy as np

from edgeveil.edge_runtime.manifest.manifest import Sampling
from edgeveil.edge_runtime.sources.series.source import Sample, Samples
from edgeveil.edge_runtime.sources.text import LinesSource


class TimedLines(Samples):
    """Lines of a file or of standard input; a first line of names is skipped. Raises ``BadInput`` as ``csv:`` does."""

    def __init__(self, path: str, sampling: Sampling) -> None:
        self.name = "csv"
        columns = 1 + len(sampling.channels)
        self._lines = LinesSource(path, {"kind": "vector", "shape": [columns], "dtype": "float64"})

    def read(self) -> Optional[List[Sample]]:
        """The samples of the lines that came, with a None for each line that is none."""
        frames = self._lines.next_block()
        found: Dict[int, Sample] = {number: None for number, _ in self._lines.refused()}
        if frames is None:
            return list(found.values()) or None
        found.update((frame.index, _sample(frame._data)) for frame in frames)
        return [sample for _, sample in sorted(found.items(), key=lambda item: item[0])]

    def close(self) -> None:
        """Close the file."""
        self._lines.close()


def _sample(row: np.ndarray) -> Sample:
    return float(row[0]), row[1:]
