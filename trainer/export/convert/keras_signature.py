"""A Keras model as a function of named tensors of a fixed batch, and calibration rows, for both converters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput


def calibration_rows(calibration: Mapping[str, np.ndarray] | None) -> list[dict[str, np.ndarray]]:
    """Inputs (n, ...) by name as n batches of one row, float32. Raises ``ValueError`` without any."""
    if not calibration:
        raise ValueError("int8 needs calibration rows")
    count = len(next(iter(calibration.values())))
    return [
        {name: np.asarray(values[row : row + 1], np.float32) for name, values in calibration.items()}
        for row in range(count)
    ]


def input_specs(model: Any, batch: int = 1) -> list[Any]:
    """``tf.TensorSpec`` (batch, ...) float32 for every input, named as in the model.

    Raises ``BadInput`` where a size is left open: a board's compiler needs all of them.
    """
    import tensorflow as tf

    specs = []
    for tensor in model.inputs:
        shape = tuple(tensor.shape[1:])
        if None in shape:
            raise BadInput(
                f"the model {model.name!r} leaves a size of its input {tensor.name!r} open, {shape}: "
                "build it with every size given."
            )
        specs.append(tf.TensorSpec((batch, *shape), tf.float32, name=tensor.name))
    return specs


def function(model: Any, batch: int = 1) -> Any:
    """A ``tf.function`` over the model's inputs, in order, to ``{output name: tensor}``; dropout off."""
    import tensorflow as tf

    names = list(model.output_names)

    def call(*tensors: Any) -> dict[str, Any]:
        value = model(tensors[0] if len(tensors) == 1 else list(tensors), training=False)
        return dict(zip(names, value if isinstance(value, (list, tuple)) else [value], strict=True))

    return tf.function(call, input_signature=input_specs(model, batch))
