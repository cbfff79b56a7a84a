"""What all converters to ONNX share: float16 and int8 (QDQ) of a float32 graph, and names that depend on it alone."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.export.converters.converter import Converter, calibration_rows
from edgeveil.trainer.tensorflow_quiet import quiet


class OnnxConverter(Converter):
    """A converter to ONNX: ``float32`` makes the graph of which the others are made. All take and give float32."""

    format = "onnx"
    keeps_float = True

    def float32(self, _model: Any, _batch: int, /) -> Any:
        """The Keras model as a ``ModelProto`` that ``tidy`` has seen."""
        raise NotImplementedError

    def int8(self, float32: Any, calibration: Mapping[str, np.ndarray] | None) -> Any:
        """The graph with steps to int8 and back (QDQ), by onnxruntime."""
        return _int8(float32, calibration, self.keep_float)

    def convert(
        self,
        model: Any,
        precisions: Sequence[str],
        calibration: Mapping[str, np.ndarray] | None = None,
        *,
        batch: int = 1,
    ) -> dict[str, bytes]:
        """The model as an ONNX file in each precision."""
        float32 = self.float32(model, batch)
        makers = {
            "float32": lambda: float32,
            "float16": lambda: _float16(float32),
            "int8": lambda: self.int8(float32, calibration),
        }
        with quiet():
            return {precision: makers[precision]().SerializeToString(deterministic=True) for precision in precisions}


def _float16(float32: Any) -> Any:
    from onnxconverter_common import float16

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one for every weight that is too small for float16
        return tidy(float16.convert_float_to_float16(_copy(float32), keep_io_types=True))


def _int8(float32: Any, calibration: Mapping[str, np.ndarray] | None, keep_float: Sequence[str]) -> Any:
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    rows = calibration_rows(calibration)()

    class Rows(CalibrationDataReader):
        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(rows, None)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "int8.onnx"
        # Unsigned activations with signed weights are fast on x86. Weights have 7 bits: x86 without VNNI adds two
        # products in 16 bits, which 8-bit weights would overflow.
        quantize_static(
            _copy(float32),
            path,
            Rows(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            reduce_range=True,
            nodes_to_exclude=list(keep_float),
        )
        return tidy(onnx.load(path))


def _copy(proto: Any) -> Any:
    """A copy: both converters work in place, and one moves the weights to a temporary file."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    return copy


def tidy(proto: Any) -> Any:
    """The same graph with names that depend on it alone, and without metadata.

    The converters number tensors by a counter of the whole process, and leave inferred shapes in the graph.
    """
    graph = proto.graph
    names = {value.name: value.name for value in (*graph.input, *graph.output)}
    constants = {constant.name for constant in graph.initializer}
    for number, node in enumerate(graph.node):
        node.name = f"{node.op_type.lower()}-{number}"
        for place, name in enumerate(node.input):
            if name in constants:
                names.setdefault(name, f"{node.name}.in{place}")
        for place, name in enumerate(node.output):
            names.setdefault(name, f"{node.name}.out{place}")
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names[name] for name in node.output]
        node.doc_string = ""
    used = [constant for constant in graph.initializer if constant.name in names]
    for constant in used:
        constant.name = names[constant.name]
    used.sort(key=lambda constant: constant.name)
    del graph.initializer[:]
    graph.initializer.extend(used)
    del graph.value_info[:]
    graph.name, graph.doc_string, proto.doc_string = "perturber", "", ""
    domains = {node.domain for node in graph.node}
    imports = [entry for entry in proto.opset_import if entry.domain in ("", "ai.onnx") or entry.domain in domains]
    del proto.opset_import[:]
    proto.opset_import.extend(imports)
    del proto.metadata_props[:]
    return proto
