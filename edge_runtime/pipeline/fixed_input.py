"""What stands for a reading that failed, where an epsilon is promised.

An epsilon speaks of what a report may be, not of whether it comes: a missing one tells exactly what made the network
fail. So the mechanisms then run on a fixed input, index 0 or the middle of the range, and that report is paid for too.
"""

from typing import Dict, Mapping

import numpy as np

from edgeveil.edge_runtime.lut import Flow

_MIDDLE = 0.5  # of what mechanisms and noise take, 0 to 1


class FixedInput(object):
    """``values`` (1, ...) are those that stages make of a reading, whose shapes and types are taken; ``outputs``
    (1, ...) leave where what comes after a report fails too."""

    def __init__(self, values: Mapping[str, np.ndarray], outputs: Dict[str, np.ndarray]) -> None:
        self._values = {name: np.full_like(v, _MIDDLE if v.dtype.kind == "f" else 0) for name, v in values.items()}
        self.outputs = {name: value.copy() for name, value in outputs.items()}
        for value in (*self._values.values(), *self.outputs.values()):
            value.setflags(write=False)

    def flow(self) -> Flow:
        """The flow of one reading, to which the noise is added."""
        return Flow(dict(self._values))
