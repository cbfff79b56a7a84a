"""Read a TFLite, ONNX or numpy file as a graph, or a Keras file as a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs.graph import Graph
from edgeveil.trainer.graphs.numpy_arrays import read_arrays
from edgeveil.trainer.graphs.onnx import read_onnx
from edgeveil.trainer.graphs.tflite import read_tflite


def read(data: bytes, file_format: str) -> Graph:
    """The graph of a ``"tflite"``, ``"onnx"`` or ``"numpy"`` file. Raises ``BadInput`` where it is none."""
    if file_format == "numpy":
        return read_arrays(data)
    return read_tflite(data) if file_format == "tflite" else read_onnx(data)


def read_keras(path: Path) -> Any:
    """A saved Keras model, without its optimiser. Raises ``BadInput`` where the file is none."""
    import keras

    import edgeveil.models.layers  # noqa: F401  registers its layers with Keras

    try:
        return keras.saving.load_model(path, compile=False)
    except (OSError, ValueError, TypeError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise BadInput(
            f"{path} cannot be read as a Keras model ({first}); write it with model.save(FILE.keras)."
        ) from None
