"""Keras 3 to ONNX opset 13: float32, float16 and int8 (QDQ), one frame at a time, the same bytes every time.

Tensors keep the channels-last order of the networks; nothing here turns a model's inputs to channels-first.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.export.to_tflite import calibration_rows, function, input_specs
from edgeveil.trainer.ext import private
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.run import Head
from edgeveil.trainer.tensorflow_quiet import quiet

PRECISIONS = ("float32", "float16", "int8")
LARGEST_SIDE = 4096  # pixels: a scale is the quotient of two sides
OPSET = 13  # the newest that JetPack 4.6 and OpenVINO 2022.3 read; its IR is 7


def convert(
    model: Any, precisions: Sequence[str], calibration: Mapping[str, np.ndarray] | None = None, *, batch: int = 1
) -> dict[str, bytes]:
    """The model as an ONNX file in each precision; all take and give float32.

    ``model`` is a Keras model with named inputs and outputs, ``calibration`` maps an input name to float32 (n, ...):
    real inputs of the model, n rows that belong together, needed for int8 alone. ``batch`` frames go through at a time.
    """
    with quiet():
        float32 = _float32(model, batch)
        makers = {
            "float32": lambda: float32,
            "float16": lambda: _float16(float32),
            "int8": lambda: _int8(float32, calibration),
        }
        return {precision: makers[precision]().SerializeToString(deterministic=True) for precision in precisions}


def _float32(model: Any, batch: int) -> Any:
    import tf2onnx

    proto, _ = tf2onnx.convert.from_function(
        function(model, batch), input_signature=input_specs(model, batch), opset=OPSET
    )
    _resize_to_whole_sizes(proto)
    return _tidy(proto)


def _resize_to_whole_sizes(proto: Any) -> None:
    """Round scales of resizes up in float32 where they were rounded down.

    By the specification (floor of size times scale), 23 / 12 rounded down makes 22 of 12. Some runtimes round to
    nearest, and a checker refuses the graph.
    """
    from onnx import numpy_helper

    constants = {constant.name: constant for constant in proto.graph.initializer}
    for node in proto.graph.node:
        if node.op_type != "Resize" or len(node.input) < 3 or node.input[2] not in constants:
            continue
        constant = constants[node.input[2]]
        scales = numpy_helper.to_array(constant)
        short = np.array([Fraction(float(s)) < Fraction(float(s)).limit_denominator(LARGEST_SIDE) for s in scales])
        scales = np.where(short, np.nextafter(scales, np.float32(np.inf)), scales)
        constant.CopyFrom(numpy_helper.from_array(scales, constant.name))


def _float16(float32: Any) -> Any:
    from onnxconverter_common import float16

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one for every weight that is too small for float16
        return _tidy(float16.convert_float_to_float16(_copy(float32), keep_io_types=True))


def _int8(float32: Any, calibration: Mapping[str, np.ndarray] | None) -> Any:
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    rows = iter(calibration_rows(calibration))

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
        )
        return _tidy(onnx.load(path))


def _copy(proto: Any) -> Any:
    """A copy: both converters work in place, and one moves the weights to a temporary file."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    return copy


def _tidy(proto: Any) -> Any:
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


# A perturber that sends its head's label in addition: a linear stage, and the largest of its scores.


SCORES = "head_scores"


def with_head(fitted: FittedPerturber, head: Head | None) -> FittedPerturber:
    """The same perturber with a further output ``head``, the class of y by the run's head.

    Raises ``BadInput`` where there is no head, and for one whose noise came of a seed.
    """
    if head is None:
        raise BadInput("This run has no head to emit: train with a section [head], or leave out --emit both.")
    if head.promise is None:
        raise BadInput(
            "The head's noise came of `head.random_state`, so who knows the seed knows the noise, and nothing is "
            "promised. Leave the key out and train again, or export without --emit both."
        )
    from edgeveil.models.linear_head import linear_head

    sample = "u" if head.of == "reading" else _before_output(fitted)
    training = fitted.training
    if training is not None:
        mark = private.head_mark(head.mechanism, head.promise)
        marks = {**training["marks"], "models": {**training["marks"]["models"], private.HEAD: mark}}
        training = {**training, "marks": marks}
    return replace(
        fitted,
        stages=(
            *fitted.stages,
            {"stage": "artefact", "model": private.HEAD, "inputs": {"sample": sample}, "outputs": {"scores": SCORES}},
            {"stage": "table", "op": "argmax", "input": SCORES, "output": private.HEAD},
        ),
        outputs=(
            *fitted.outputs,
            {"name": private.HEAD, "kind": "label", "tensor": private.HEAD, "shape": [], "dtype": "int64"},
        ),
        models={**fitted.models, private.HEAD: linear_head(fitted.input.shape, head.weights, head.bias)},
        training=training,
    )


def _before_output(fitted: FittedPerturber) -> str:
    """The tensor of what is sent, in the unit cube."""
    tensor = next((stage["input"] for stage in fitted.stages if stage["stage"] == "output"), None)
    if tensor is None:
        raise BadInput('What this perturber sends is a whole sample of a table: train with `head.of = "reading"`.')
    return str(tensor)
