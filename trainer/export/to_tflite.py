"""Keras 3 to TFLite: float32, float16 and int8, one frame at a time, the same bytes every time.

The only way that works is a SavedModel of a ``tf.Module`` whose function has a fixed batch-1 signature with named
outputs: ``from_keras_model`` keeps a dynamic batch, and ``from_concrete_functions`` silently loses the variables of a
Keras 3 model.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.tensorflow_quiet import quiet

# A Keras model as a function of named tensors of a fixed batch, and calibration rows, for both converters.


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


PRECISIONS = ("float32", "float16", "int8")


def convert(
    model: Any, precisions: Sequence[str], calibration: Mapping[str, np.ndarray] | None = None, *, batch: int = 1
) -> dict[str, bytes]:
    """The model as a flatbuffer in each precision.

    ``model`` is a Keras model with named inputs and outputs, ``calibration`` maps an input name to float32 (n, ...):
    real inputs of the model, n rows that belong together, needed for int8 alone. ``batch`` frames go through at a time.
    An int8 artefact takes and gives int8; the ranges of its tensors are those that ``calibration`` shows.
    """
    import tensorflow as tf

    module = tf.Module()
    module.variables_to_keep = [variable.value for variable in model.variables]
    module.call = function(model, batch)
    with tempfile.TemporaryDirectory() as folder, quiet(), warnings.catch_warnings():
        # The converter's calibration opens TensorFlow's own interpreter, which is deprecated.
        warnings.filterwarnings("ignore", message=".*tf.lite.Interpreter is deprecated")
        tf.saved_model.save(module, folder, signatures={"serving_default": module.call})
        return {precision: _convert(folder, precision, calibration) for precision in precisions}


def _convert(folder: str, precision: str, calibration: Mapping[str, np.ndarray] | None) -> bytes:
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(folder)
    # With a scale per output of a Dense layer, interpreters before 2.14 use the first one for all, without an error.
    converter._experimental_disable_per_channel_quantization_for_dense_layers = True
    if precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if precision == "int8":
        rows = calibration_rows(calibration)
        converter.representative_dataset = lambda: rows
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    return bytes(converter.convert())
