"""The output of a Keras model for many samples. It is called directly: ``predict`` traces a graph for each model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def predict(model: Any, values: np.ndarray | Sequence[np.ndarray], *, batch: int = 1024) -> Any:
    """The model's output for ``values`` (n, ...), or for a list of arrays if it has several inputs.

    Returns an array (n, ...), or a list of arrays if the model has several outputs.
    """
    arrays = [values] if isinstance(values, np.ndarray) else list(values)
    pieces: list[list[np.ndarray]] = []
    several = False
    for start in range(0, len(arrays[0]), batch):
        chunk = [array[start : start + batch] for array in arrays]
        output = model(chunk if len(chunk) > 1 else chunk[0], training=False)
        several = isinstance(output, (list, tuple))
        pieces.append([np.asarray(one) for one in (output if several else [output])])
    outputs = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    return outputs if several else outputs[0]
