"""Keras 3 to TFLite by ``tf.lite``: float32, float16 and int8.

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

from edgeveil.trainer.export.converters.converter import Converter, calibration_rows, function
from edgeveil.trainer.tensorflow_quiet import quiet


class TfLite(Converter):
    """``tf.lite`` of TensorFlow. An int8 file takes and gives int8; the ranges are those that calibration shows."""

    name = "tf.lite"
    format = "tflite"
    modules = ("tensorflow",)
    packages = ("tensorflow", "tensorflow-cpu", "keras")

    def convert(
        self,
        model: Any,
        precisions: Sequence[str],
        calibration: Mapping[str, np.ndarray] | None = None,
        *,
        batch: int = 1,
    ) -> dict[str, bytes]:
        """The model as a flatbuffer in each precision."""
        import tensorflow as tf

        module = tf.Module()
        module.variables_to_keep = [variable.value for variable in model.variables]
        module.call = function(model, batch)
        with tempfile.TemporaryDirectory() as folder, quiet(), warnings.catch_warnings():
            # The converter's calibration opens TensorFlow's own interpreter, which is deprecated.
            warnings.filterwarnings("ignore", message=".*tf.lite.Interpreter is deprecated")
            tf.saved_model.save(module, folder, signatures={"serving_default": module.call})
            # One for all precisions: it reads the folder when it is made, and again for each.
            converter = tf.lite.TFLiteConverter.from_saved_model(folder)
            return {precision: _convert(converter, precision, calibration) for precision in precisions}


def _convert(converter: Any, precision: str, calibration: Mapping[str, np.ndarray] | None) -> bytes:
    import tensorflow as tf

    # With a scale per output of a Dense layer, interpreters before 2.14 use the first one for all, without an error.
    converter._experimental_disable_per_channel_quantization_for_dense_layers = True
    converter.optimizations = [] if precision == "float32" else [tf.lite.Optimize.DEFAULT]
    converter.target_spec = tf.lite.TargetSpec(supported_types=[tf.float16] if precision == "float16" else None)
    converter.representative_dataset = None
    converter.inference_input_type = converter.inference_output_type = tf.float32
    if precision == "int8":
        converter.representative_dataset = calibration_rows(calibration)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    return bytes(converter.convert())
