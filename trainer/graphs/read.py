"""Read a TFLite, ONNX or numpy file as a graph."""

from __future__ import annotations

from edgeveil.trainer.graphs.graph import Graph
from edgeveil.trainer.graphs.numpy_arrays import read_arrays
from edgeveil.trainer.graphs.onnx import read_onnx
from edgeveil.trainer.graphs.tflite import read_tflite


def read(data: bytes, file_format: str) -> Graph:
    """The graph of a ``"tflite"``, ``"onnx"`` or ``"numpy"`` file. Raises ``BadInput`` where it is none."""
    if file_format == "numpy":
        return read_arrays(data)
    return read_tflite(data) if file_format == "tflite" else read_onnx(data)
