"""Keras 3 to TFLite by Keras' own export, quantised by ``ai-edge-quantizer``, whose makers develop it and LiteRT alone.

On TensorFlow, Keras calls ``tf.lite`` for the float32 graph; int8 owes nothing to it. What the quantizer (0.10) leaves
open is done here: the smallest and largest value of each tensor in place of a moving average, which cuts off what is
rare; int8 for MINIMUM and MAXIMUM with a constant, which it leaves in float; and the versions of the operations, which
an old interpreter goes by.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.export.converters.converter import Converter, calibration_rows, input_shapes
from edgeveil.trainer.graphs.files import read
from edgeveil.trainer.tensorflow_quiet import quiet

# The first version of an operation with int8; of those that are not here it is the first of all.
_INT8 = {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 4, "TRANSPOSE_CONV": 2}
_INT8 |= dict.fromkeys(
    """ADD SUB MUL MINIMUM MAXIMUM TANH LOGISTIC RELU RELU6 SOFTMAX CONCATENATION MEAN PAD AVERAGE_POOL_2D MAX_POOL_2D
    RESIZE_NEAREST_NEIGHBOR RESIZE_BILINEAR TRANSPOSE STRIDED_SLICE SPLIT SPACE_TO_DEPTH""".split(),  # noqa: SIM905
    2,
)
# And with 16-bit activations: GetBuiltinOperatorVersion of TFLite's op_version.cc.
_INT16 = {"CONV_2D": 4, "DEPTHWISE_CONV_2D": 5, "FULLY_CONNECTED": 7, "SUB": 5, "TRANSPOSE": 5}
_INT16 |= dict.fromkeys(("ADD", "CONCATENATION", "LOGISTIC", "MEAN", "PAD", "RELU", "RELU6", "SOFTMAX", "TANH"), 3)
_INT16 |= dict.fromkeys(("AVERAGE_POOL_2D", "DEQUANTIZE", "MAX_POOL_2D", "MIRROR_PAD", "PACK", "TRANSPOSE_CONV"), 3)
_INT16 |= dict.fromkeys(("MAXIMUM", "MINIMUM", "MUL", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "SPLIT"), 4)
_SIGNATURE = "serving_default"


class KerasLitert(Converter):
    """``model.export(format="litert")``; int8 is static, with a scale for each output of a convolution.

    A Dense layer has one scale: interpreters before 2.14 read only the first. int16x8 has activations of 16 bits with
    weights of 8: nearer to float32 and slower, since few kernels are made for it.
    """

    name = "keras-litert"
    format = "tflite"
    modules = ("tensorflow", "ai_edge_quantizer")
    install = "pip install 'edgeveil[trainer,converters]'"
    packages = ("tensorflow", "tensorflow-cpu", "keras", "ai-edge-quantizer", "ai-edge-litert")
    precisions = ("float32", "float16", "int8", "int16x8")
    keeps_float = True

    def convert(
        self,
        model: Any,
        precisions: Sequence[str],
        calibration: Mapping[str, np.ndarray] | None = None,
        *,
        batch: int = 1,
    ) -> dict[str, bytes]:
        """The model as a flatbuffer in each precision."""
        with quiet():
            float32 = _exported(model, batch, "float32")
            makers = {
                "float32": lambda: float32,
                "float16": lambda: _exported(model, batch, "float16"),
                "int8": lambda: _quantised(float32, calibration, self.keep_float, 8),
                "int16x8": lambda: _quantised(float32, calibration, self.keep_float, 16),
            }
            return {precision: makers[precision]() for precision in precisions}


def _exported(model: Any, batch: int, precision: str) -> bytes:
    import keras
    import tensorflow as tf

    outputs = dict(zip(model.output_names, model.outputs, strict=True))
    shapes = input_shapes(model, batch)
    specs = [keras.InputSpec(dtype="float32", shape=shape, name=name) for name, shape in shapes.items()]
    how: dict[str, Any] = {"target_spec": {"supported_ops": [tf.lite.OpsSet.TFLITE_BUILTINS]}}
    if precision == "float16":
        how["optimizations"] = [tf.lite.Optimize.DEFAULT]
        how["target_spec"]["supported_types"] = [tf.float16]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        named = keras.Model(model.inputs, outputs)  # whose outputs have names in the signature
        signature = [specs] if len(specs) > 1 else specs
        named.export(path, format="litert", verbose=False, input_signature=signature, **how)
        return _edited(path.read_bytes(), _tidy)


def _quantised(
    float32: bytes, calibration: Mapping[str, np.ndarray] | None, keep_float: Sequence[str], bits: int
) -> bytes:
    """With activations of 8 bits, or of 16 with one zero for all."""
    from ai_edge_quantizer.quantizer import Quantizer

    rules = [_static("*", "CHANNELWISE", bits), _static("FULLY_CONNECTED", "TENSORWISE", bits)]
    kept = {op.outputs[0].name: op.kind for op in read(float32, "tflite").ops if op.name in keep_float}
    for tensor, kind in kept.items():  # a later rule goes before an earlier one
        rules.append({"regex": f"^{re.escape(tensor)};", "operation": kind, "algorithm_key": "no_quantize"})
    made = Quantizer(float32, rules).quantize(_ranges(float32, calibration))
    return _edited(bytes(made.quantized_model), partial(_whole, kept=kept))


def _static(operation: str, weights: str, bits: int) -> dict[str, Any]:
    """A rule of the quantizer: whole numbers for operations of that name, or all, the weights' scales of that grain."""
    values = {"num_bits": bits, "dtype": "INT", "symmetric": bits > 8}
    return {
        "regex": ".*",
        "operation": operation,
        "algorithm_key": "min_max_uniform_quantize",
        "op_config": {
            "activation_tensor_config": {**values, "granularity": "TENSORWISE"},
            "weight_tensor_config": {"num_bits": 8, "dtype": "INT", "symmetric": True, "granularity": weights},
            "compute_precision": "INTEGER",
            "explicit_dequantize": False,
        },
    }


def _ranges(float32: bytes, calibration: Mapping[str, np.ndarray] | None) -> dict[str, dict[str, np.ndarray]]:
    """The smallest and largest value of every float32 tensor that is computed, as the quantizer takes them.

    Of a constant it finds the ranges itself, one for each output.
    """
    from ai_edge_litert.interpreter import Interpreter

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that all tensors are held: here they are read
        interpreter = Interpreter(model_content=float32, experimental_preserve_all_tensors=True, num_threads=1)
    runner = interpreter.get_signature_runner(_SIGNATURE)
    computed = _computed(float32)
    tensors = [
        one for one in interpreter.get_tensor_details() if one["name"] in computed and one["dtype"] == np.float32
    ]
    low: dict[str, np.ndarray] = {}
    high: dict[str, np.ndarray] = {}
    for row in calibration_rows(calibration)():
        runner(**row)
        for one in tensors:
            try:
                values = interpreter.tensor(one["index"])()
            except ValueError:
                continue  # which an operation needs for itself and has given back
            name, axes = one["name"], tuple(range(values.ndim))
            low[name] = np.minimum(low.get(name, np.inf), values.min(axes, keepdims=True))
            high[name] = np.maximum(high.get(name, -np.inf), values.max(axes, keepdims=True))
    # A minimum with a constant is where int8 saturates: what comes in has the range of what goes out.
    for source, result in _limited(float32):
        if result in low:
            low[source], high[source] = low[result], high[result]
    return {name: {"min": low[name].astype(np.float32), "max": high[name].astype(np.float32)} for name in low}


def _edited(data: bytes, edit: Any) -> bytes:
    """The flatbuffer after ``edit(model, schema)`` of its objects."""
    import flatbuffers

    model, _, schema = _objects(data)
    edit(model, schema)
    builder = flatbuffers.Builder(len(data) + 1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _objects(data: bytes) -> tuple[Any, Any, Any]:
    """A flatbuffer's model, its one graph, and the schema of both."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(data, 0)
    (graph,) = model.subgraphs
    for buffer in model.buffers:
        if buffer.offset > 1:  # a large one lies after the flatbuffer
            buffer.data = np.frombuffer(data, np.uint8, buffer.size, buffer.offset)
            buffer.offset = buffer.size = 0
    return model, graph, schema


def _tidy(model: Any, _: Any) -> None:
    """Names that depend on the graph alone: TensorFlow numbers them by what the process exported before."""
    (graph,) = model.subgraphs
    ends = {*graph.inputs}
    for number, tensor in enumerate(graph.tensors):
        if number not in ends:
            tensor.name = f"tensor-{number}".encode()
    model.description = b"edgeveil"
    model.metadata = [one for one in model.metadata or () if one.name == b"min_runtime_version"]


def _computed(data: bytes) -> set[str]:
    """The names of the tensors of a flatbuffer that are no constants."""
    model, graph, _ = _objects(data)
    return {one.name.decode() for one in graph.tensors if not _constant(model, one)}


def _limited(data: bytes) -> Iterator[tuple[str, str]]:
    """For each MINIMUM or MAXIMUM with a constant: the names of what comes in and of what goes out."""
    model, graph, schema = _objects(data)
    for op in reversed(graph.operators):  # the last first: one may be after another
        if _kind(model, op, schema) in ("MINIMUM", "MAXIMUM"):
            source = [place for place in op.inputs if not _constant(model, graph.tensors[place])]
            if len(source) == 1:
                yield graph.tensors[source[0]].name.decode(), graph.tensors[op.outputs[0]].name.decode()


def _whole(model: Any, schema: Any, kept: Mapping[str, str]) -> None:
    """No operation but those kept between DEQUANTIZE and QUANTIZE that int8 can do, and versions that fit int8."""
    (graph,) = model.subgraphs
    makers = {place: op for op in graph.operators for place in op.outputs}
    dropped = set()
    for op in graph.operators:
        if _kind(model, op, schema) != "QUANTIZE":
            continue
        limit = makers.get(op.inputs[0])
        if (
            limit is None
            or graph.tensors[op.inputs[0]].name.decode() in kept
            or _kind(model, limit, schema) not in ("MINIMUM", "MAXIMUM")
        ):
            continue
        before = [(place, makers.get(place)) for place in limit.inputs]
        sources = [maker for _, maker in before if maker is not None and _kind(model, maker, schema) == "DEQUANTIZE"]
        constants = [place for place, maker in before if maker is None and _constant(model, graph.tensors[place])]
        if len(sources) != 1 or len(constants) != 1:
            continue
        source, result = sources[0].inputs[0], graph.tensors[op.outputs[0]]
        scales = graph.tensors[source].quantization
        result.quantization = scales  # of one range, so that no value is rounded again
        limit.inputs = [source, _stepped(model, graph, constants[0], graph.tensors[source], schema)]
        limit.outputs = list(op.outputs)
        users = [one for one in graph.operators if sources[0].outputs[0] in one.inputs]
        dropped |= {id(op)} | ({id(sources[0])} if not users else set())
    graph.operators = [op for op in graph.operators if id(op) not in dropped]
    _set_versions(model, graph, schema)


def _stepped(model: Any, graph: Any, place: int, like: Any, schema: Any) -> int:
    """The place of a new tensor with the values of the constant at ``place``, of the type and scale of ``like``."""
    kind, scales = np.int16 if like.type == schema.TensorType.INT16 else np.int8, like.quantization
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    constant = graph.tensors[place]
    values = np.frombuffer(bytes(bytearray(model.buffers[constant.buffer].data)), np.float32)
    steps = np.clip(np.round(values / scales.scale[0]) + scales.zeroPoint[0], least, most).astype(kind)
    buffer = schema.BufferT()
    buffer.data = steps.view(np.uint8)
    model.buffers.append(buffer)
    tensor = schema.TensorT()
    tensor.shape, tensor.type, tensor.buffer = constant.shape, like.type, len(model.buffers) - 1
    tensor.name, tensor.quantization, tensor.hasRank = constant.name + f"-{np.dtype(kind)}".encode(), scales, True
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1


def _set_versions(model: Any, graph: Any, schema: Any) -> None:
    codes: dict[tuple[int, int], int] = {}
    kept: list[Any] = []
    for op in graph.operators:
        code = model.operatorCodes[op.opcodeIndex]
        types = {graph.tensors[place].type for place in [*op.inputs, *op.outputs] if place >= 0}
        versions = _INT16 if schema.TensorType.INT16 in types else _INT8 if schema.TensorType.INT8 in types else {}
        least = versions.get(_kind(model, op, schema), 1)
        key = (op.opcodeIndex, max(code.version, least))
        if key not in codes:
            new = schema.OperatorCodeT()
            new.builtinCode, new.deprecatedBuiltinCode = code.builtinCode, code.deprecatedBuiltinCode
            new.customCode, new.version = code.customCode, key[1]
            codes[key] = len(kept)
            kept.append(new)
        op.opcodeIndex = codes[key]
    model.operatorCodes = kept


def _kind(model: Any, op: Any, schema: Any) -> str:
    code = model.operatorCodes[op.opcodeIndex]
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    return next(name for name, value in vars(schema.BuiltinOperator).items() if value == number and name.isupper())


def _constant(model: Any, tensor: Any) -> bool:
    data = model.buffers[tensor.buffer].data
    return data is not None and len(data) > 0
