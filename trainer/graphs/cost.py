"""The cost of a network: multiply-adds by class, parameters, bytes of weights and activations, operations.

``macs`` and ``parameters`` (macs.py) agree between Keras, TFLite and ONNX at every precision. The rest is of the file
itself, so an int8 file has a quarter of the bytes:

* ``weight_bytes``: its constants.
* ``peak_activation_bytes``: the most that is held at once when the operations run in the file's order, with
  element-wise ones, views and quantisers in place, as in fusing interpreters. A lower bound on an arena.
* ``depthwise_macs``: of the MACs, those of convolutions with one filter per channel, which move more memory per MAC.
* ``moved_bytes``: bytes that operations without MACs read and write, except in place; these are bound by memory.
* ``input_values``, ``input_bytes`` and ``output_bytes``: sent to and from an accelerator for each frame.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs.macs import (
    PRODUCTS,
    Cost,
    Graph,
    Op,
    Tensor,
    graph_macs,
    keras_macs,
    read_arrays,
    read_tflite,
)

# Read an ONNX file, with every shape that can be inferred.


def read_onnx(data: bytes) -> Graph:
    """The graph of an ONNX file. Raises ``BadInput`` where the bytes are not one, or not a valid one."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        proto = onnx.load_from_string(data)
        onnx.checker.check_model(proto)
        proto = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    except (DecodeError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        first = (str(error).strip().splitlines() or ["no message"])[0]
        raise BadInput(f"the ONNX file is not valid ({first}); export the run again.") from None
    graph = proto.graph
    tensors = {c.name: _constant(c) for c in graph.initializer}
    for value in (*graph.input, *graph.output, *graph.value_info):
        tensors.setdefault(value.name, _value(value))
    ops = []
    for number, node in enumerate(graph.node):
        for name in (*node.input, *node.output):
            if name:  # a tensor whose shape could not be inferred
                tensors.setdefault(name, Tensor(name=name, shape=(-1,), dtype="unknown"))
        ops.append(
            Op(
                kind=node.op_type,
                name=node.name or f"{node.op_type}-{number}",
                inputs=tuple(tensors[name] if name else None for name in node.input),
                outputs=tuple(tensors[name] for name in node.output if name),
                domain=node.domain,
                attributes={a.name: a.i for a in node.attribute if a.type == onnx.AttributeProto.INT},
            )
        )
    constants = {c.name for c in graph.initializer}
    return Graph(
        format="onnx",
        ops=tuple(ops),
        inputs={value.name: tensors[value.name] for value in graph.input if value.name not in constants},
        outputs={value.name: tensors[value.name] for value in graph.output},
        opset=max((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), default=0),
        ir=proto.ir_version,
    )


def _constant(entry: Any) -> Tensor:
    import onnx

    array = onnx.numpy_helper.to_array(entry)
    return Tensor(entry.name, tuple(array.shape), array.dtype.name, constant=True, bytes=array.nbytes)


def _value(entry: Any) -> Tensor:
    import onnx

    kind = entry.type.tensor_type
    sizes = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim)
    return Tensor(entry.name, sizes, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name)


# Read a TFLite, ONNX or numpy file as a graph, or a Keras file as a model.


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


_IN_PLACE = {
    *("BatchNormalization", "Activation", "ReLU", "LeakyReLU", "Dropout", "Reshape", "Flatten", "GaussianNoise"),
    *("Relu", "Clip", "Min", "Max", "Sigmoid", "Tanh", "Identity", "QuantizeLinear", "DequantizeLinear", "Cast"),
    *("Squeeze", "Unsqueeze", "LeakyRelu", "HardSigmoid", "Add", "Mul", "Sub", "Div"),
    *("RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH", "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "QUANTIZE"),
    *("DEQUANTIZE", "MINIMUM", "MAXIMUM", "ADD", "MUL", "SUB", "DIV", "LEAKY_RELU"),
    *("Subtract", "Multiply", "Rescaling", "Softmax", "SOFTMAX"),
}


@dataclass(frozen=True)
class FullCost:
    """The cost of one network for one frame; ``flops`` is twice ``macs``. ``ops`` counts operations by type."""

    format: str
    macs: int
    flops: int
    depthwise_macs: int
    parameters: int
    weight_bytes: int
    peak_activation_bytes: int
    moved_bytes: int
    input_values: int
    input_bytes: int
    output_bytes: int
    ops: Mapping[str, int]

    def document(self) -> dict[str, Any]:
        """The cost as plain values, for JSON."""
        return {**asdict(self), "ops": dict(sorted(self.ops.items()))}


def file_cost(data: bytes, file_format: str) -> FullCost:
    """The cost of a ``"tflite"``, ``"onnx"`` or ``"numpy"`` file. Raises ``BadInput`` for what cannot be counted."""
    graph = read(data, file_format)
    frames = max(next((t.shape[0] for t in graph.inputs.values() if t.shape), 1), 1)
    return _full(graph, graph_macs(graph), graph.weight_bytes(), frames)


def keras_cost(model: Any) -> FullCost:
    """The cost of a built Keras model with float32 tensors. Raises ``BadInput`` as ``keras_macs`` does."""
    return _full(_keras_graph(model), keras_macs(model), 4 * sum(math.prod(v.shape) for v in model.weights), 1)


def model_file_cost(path: Any) -> FullCost:
    """The cost of a .tflite, .onnx or .keras file by its name. Raises ``BadInput`` where it is none of these."""
    if path.suffix == ".keras":
        return keras_cost(read_keras(path))
    file_format = {".tflite": "tflite", ".onnx": "onnx"}.get(path.suffix)
    if file_format is None:
        raise BadInput(f"A .tflite, .onnx, .keras or .veil file was expected; got {path}.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from None
    return file_cost(data, file_format)


def _full(graph: Graph, cost: Cost, weight_bytes: int, frames: int) -> FullCost:
    groups = _groups(graph)
    return FullCost(
        format=graph.format,
        macs=cost.macs,
        flops=2 * cost.macs,
        depthwise_macs=sum(_depthwise(op) for op in graph.ops) // frames,
        parameters=cost.parameters,
        weight_bytes=weight_bytes,
        peak_activation_bytes=_peak(graph, groups) // frames,
        moved_bytes=sum(_moved(op) for op in graph.ops) // frames,
        input_values=sum(t.size for t in graph.inputs.values()) // frames,
        input_bytes=sum(_bytes(t) for t in graph.inputs.values()) // frames,
        output_bytes=sum(_bytes(t) for t in graph.outputs.values()) // frames,
        ops=Counter(op.kind for op in graph.ops),
    )


def _bytes(tensor: Tensor) -> int:
    if any(size < 0 for size in tensor.shape):
        return 0  # the lint refuses open sizes; they have no bytes to count
    try:
        return tensor.size * np.dtype(tensor.dtype).itemsize
    except TypeError:
        return 0


def _data(tensors: Iterable[Tensor | None]) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor is not None and not tensor.constant]


def _depthwise(op: Op) -> int:
    """MACs of a depthwise convolution; 0 of any other operation."""
    out = op.outputs[0]
    if op.kind in ("DepthwiseConv2D", "SeparableConv2D"):
        return op.attributes["depthwise_macs"]
    if op.kind == "DEPTHWISE_CONV_2D" and op.inputs[1] is not None:
        return out.size * math.prod(op.inputs[1].shape[1:-1])
    if op.kind == "Conv" and op.attributes.get("group", 1) > 1 and op.inputs[1] is not None:
        return out.size * math.prod(op.inputs[1].shape[1:])
    return 0


def _moved(op: Op) -> int:
    if op.kind in PRODUCTS or op.attributes.get("macs") or op.kind in _IN_PLACE:
        return 0
    return sum(_bytes(t) for t in (*_data(op.inputs), *op.outputs))


def _groups(graph: Graph) -> dict[int, int]:
    """``id`` of a tensor -> that of the tensor whose memory it can reuse, as the output of its only user."""
    users = graph.users()
    ends = {id(tensor) for tensor in graph.outputs.values()}
    root: dict[int, int] = {}
    for op in graph.ops:
        data = _data(op.inputs)
        if op.kind not in _IN_PLACE or not data or not op.outputs:
            continue
        first = max(data, key=lambda t: t.size)
        # Reused only where no other operation needs it, and where the sizes are equal.
        if len(users[id(first)]) == 1 and id(first) not in ends and first.size == op.outputs[0].size:
            root[id(op.outputs[0])] = root.get(id(first), id(first))
    return root


def _peak(graph: Graph, groups: Mapping[int, int]) -> int:
    """The most bytes of tensors alive at once. A group is as large as its smallest member, which is what is stored."""
    size: dict[int, int] = {}
    born: dict[int, int] = {}
    dies: dict[int, int] = {}

    def touch(tensor: Tensor, step: int) -> None:
        key = groups.get(id(tensor), id(tensor))
        size[key] = min(size.get(key, _bytes(tensor)), _bytes(tensor))
        born.setdefault(key, step)
        dies[key] = max(dies.get(key, step), step)

    for tensor in graph.inputs.values():
        touch(tensor, 0)
    for step, op in enumerate(graph.ops):
        for tensor in (*_data(op.inputs), *op.outputs):
            touch(tensor, step)
    for tensor in graph.outputs.values():
        touch(tensor, len(graph.ops))
    change: Counter[int] = Counter()
    for key, amount in size.items():
        change[born[key]] += amount
        change[dies[key] + 1] -= amount
    live = peak = 0
    for step in sorted(change):
        live += change[step]
        peak = max(peak, live)
    return peak


def _keras_graph(model: Any, given: tuple[Tensor, ...] = ()) -> Graph:
    """A Keras model as a graph, one operation per layer, with inner models expanded.

    ``given`` are the tensors at its inputs where it is part of another model.
    """
    import keras

    if isinstance(model, keras.Sequential):
        model = model._functional
    tensors = {id(kt): tensor for kt, tensor in zip(model.inputs, given, strict=False)}

    def tensor_of(kt: Any) -> Tensor:
        shape = tuple(-1 if n is None else n for n in kt.shape[1:])
        return tensors.setdefault(id(kt), Tensor(kt.name, (1, *shape), "float32"))

    ops: list[Op] = []
    inputs = {t.name: tensor_of(t) for t in model.inputs}
    for depth in sorted(model._nodes_by_depth, reverse=True):
        for node in model._nodes_by_depth[depth]:
            layer = node.operation
            if type(layer).__name__ == "InputLayer":
                continue
            if isinstance(layer, keras.Model):
                inner = _keras_graph(layer, tuple(tensor_of(t) for t in node.input_tensors))
                ops += inner.ops
                tensors.update({id(kt): t for kt, t in zip(node.output_tensors, inner.outputs.values(), strict=True)})
                continue
            ops.append(
                Op(
                    kind=type(layer).__name__,
                    name=layer.name,
                    inputs=tuple(tensor_of(t) for t in node.input_tensors),
                    outputs=tuple(tensor_of(t) for t in node.output_tensors),
                    attributes=_keras_attributes(layer, node),
                )
            )
    return Graph("keras", tuple(ops), inputs, {t.name: tensor_of(t) for t in model.outputs})


def _keras_attributes(layer: Any, node: Any) -> dict[str, int]:
    kind = type(layer).__name__
    places = math.prod(node.output_tensors[0].shape[1:-1]) if node.output_tensors else 0
    if kind == "DepthwiseConv2D":
        macs = places * math.prod(layer.kernel.shape)
        return {"macs": macs, "depthwise_macs": macs}
    if kind == "SeparableConv2D":
        return {"macs": 1, "depthwise_macs": places * math.prod(layer.depthwise_kernel.shape)}
    return {"macs": 1} if kind.startswith(("Conv", "Dense")) else {}
