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
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs import keras_file
from edgeveil.trainer.graphs.files import read, read_any_onnx, read_tflite
from edgeveil.trainer.graphs.macs import (
    PRODUCTS,
    Counted,
    Graph,
    Op,
    Tensor,
    counted,
    counted_keras,
    graph_macs,
    keras_macs,
)

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

    uncounted: Mapping[str, int] = field(default_factory=dict)  # operations whose products are not in ``macs``
    open_inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # shapes, -1 where a size is left open

    def document(self) -> dict[str, Any]:
        """The cost as plain values, for JSON."""
        fields = {**asdict(self), "ops": dict(sorted(self.ops.items()))}
        return {name: value for name, value in fields.items() if value or name not in ("uncounted", "open_inputs")}


def file_cost(data: bytes, file_format: str) -> FullCost:
    """The cost of a ``"tflite"``, ``"onnx"`` or ``"numpy"`` file. Raises ``BadInput`` for what cannot be counted."""
    graph = read(data, file_format)
    return _full(graph, Counted(graph_macs(graph), {}), graph.weight_bytes())


def keras_cost(model: Any) -> FullCost:
    """The cost of a built Keras model with float32 tensors. Raises ``BadInput`` as ``keras_macs`` does."""
    return _keras(model, Counted(keras_macs(model), {}))


def _keras(model: Any, found: Counted) -> FullCost:
    return _full(_keras_graph(model), found, 4 * sum(math.prod(v.shape) for v in model.weights))


def model_file_cost(path: Path, shapes: Mapping[str, tuple[int, ...]] | None = None) -> FullCost:
    """The cost of anybody's .tflite, .onnx or .keras file. Raises ``BadInput`` where it is none of these.

    ``shapes`` gives inputs their sizes, by name, where the file leaves some open. What cannot be counted is listed in
    ``uncounted``: the figures are then lower bounds.
    """
    shapes = shapes or {}
    if path.suffix == ".keras":
        model = keras_file.read(path, shapes)
        return _keras(model, counted_keras(model))
    if path.suffix not in (".tflite", ".onnx"):
        raise BadInput(f"A .tflite, .onnx, .keras or .veil file was expected; got {path}.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from None
    if path.suffix == ".tflite":
        graph = read_tflite(data, shapes)
        return _full(graph, counted(graph), graph.weight_bytes())
    written, graph = read_any_onnx(path, shapes)
    as_written, sized = counted(written), counted(graph)
    if sum(sized.uncounted.values()) >= sum(as_written.uncounted.values()):
        graph, sized = written, as_written
    # Parameters and operations are those of the file, as it was written.
    sized = sized._replace(cost=sized.cost._replace(parameters=as_written.cost.parameters))
    return replace(_full(graph, sized, written.weight_bytes()), ops=Counter(op.kind for op in written.walk()))


def _full(graph: Graph, found: Counted, weight_bytes: int) -> FullCost:
    groups, frames, every = _groups(graph), graph.frames, list(graph.walk())
    return FullCost(
        format=graph.format,
        macs=found.cost.macs,
        flops=2 * found.cost.macs,
        depthwise_macs=sum(map(_depthwise, every)) // frames,
        parameters=found.cost.parameters,
        weight_bytes=weight_bytes,
        peak_activation_bytes=_peak(graph, groups)[0] // frames,
        moved_bytes=sum(map(_moved, every)) // frames,
        input_values=sum(t.size for t in graph.inputs.values() if -1 not in t.shape) // frames,
        input_bytes=sum(_bytes(t) for t in graph.inputs.values()) // frames,
        output_bytes=sum(_bytes(t) for t in graph.outputs.values()) // frames,
        ops=Counter(op.kind for op in every),
        uncounted=dict(sorted(found.uncounted.items())),
        open_inputs={name: t.shape for name, t in graph.inputs.items() if -1 in t.shape},
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
    if "depthwise_macs" in op.attributes:
        return int(op.attributes["depthwise_macs"])
    kernel = op.inputs[1] if len(op.inputs) > 1 else None
    if kernel is None or -1 in (*kernel.shape, *op.outputs[0].shape):
        return 0
    if op.kind == "DEPTHWISE_CONV_2D":
        return op.outputs[0].size * math.prod(kernel.shape[1:-1])
    if op.kind == "Conv" and op.attributes.get("group", 1) > 1:
        return op.outputs[0].size * math.prod(kernel.shape[1:])
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


def most_held(graph: Graph) -> tuple[int, Op | None]:
    """The most bytes of activations held at once, of all frames of one run, and the operation that then runs."""
    held, step = _peak(graph, _groups(graph))
    return held, graph.ops[min(step, len(graph.ops) - 1)] if graph.ops else None


def _peak(graph: Graph, groups: Mapping[int, int]) -> tuple[int, int]:
    """The most bytes of tensors alive at once, and from which step on. A group is as large as its smallest member,
    which is what is stored."""
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
    live, most = 0, (0, 0)
    for step in sorted(change):
        live += change[step]
        most = max(most, (live, step), key=lambda one: one[0])
    return most


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
    sizes = node.output_tensors[0].shape[1:-1] if node.output_tensors else (0,)
    kernel = getattr(layer, "depthwise_kernel", layer.kernel if kind == "DepthwiseConv2D" else None)
    deep = 0 if kernel is None or None in sizes else math.prod((*sizes, *kernel.shape))
    return {"macs": 1, "depthwise_macs": deep} if kind.startswith(("Conv", "Dense", "Depth", "Separable")) else {}
