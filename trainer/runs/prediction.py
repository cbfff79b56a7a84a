"""What a Keras model says of many readings: called directly, for ``predict`` traces a graph for every model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def predict(model: Any, values: np.ndarray | Sequence[np.ndarray], *, batch: int = 1024) -> Any:
    """The model's output for ``values`` (n, ...), or for a list of such where it has several inputs.

    Returns an array (n, ...), or a list of them where the model has several outputs.
    """
    arrays = [values] if isinstance(values, np.ndarray) else list(values)
    pieces: list[list[np.ndarray]] = []
    several = False
    for start in range(0, len(arrays[0]), batch):
        chunk = [array[start : start + batch] for array in arrays]
        said = model(chunk if len(chunk) > 1 else chunk[0], training=False)
        several = isinstance(said, (list, tuple))
        pieces.append([np.asarray(one) for one in (said if several else [said])])
    outputs = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    return outputs if several else outputs[0]
