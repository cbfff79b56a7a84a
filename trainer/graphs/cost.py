"""The cost of a network: multiply-adds by class, parameters, bytes of weights and activations, operations.

``macs`` and ``parameters`` are those of ``count`` and agree between Keras, TFLite and ONNX, whatever the precision.
The rest is of the file as it lies there, so an int8 file has a quarter of the bytes:

* ``weight_bytes``: its constants.
* ``peak_activation_bytes``: the most that must be held at once when the operations run in the file's order, and
  element-wise ones, views and quantisers work in place, as fusing interpreters do. A lower bound on an arena.
* ``depthwise_macs``: of the MACs, those of convolutions with one filter a channel, which move more memory a MAC.
* ``moved_bytes``: what operations without MACs read and write, those in place left out: bound by memory.
* ``input_values``, ``input_bytes`` and ``output_bytes``: what goes to an accelerator and comes back for a frame.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs.graph import Graph, Op, Tensor
from edgeveil.trainer.graphs.macs import _PRODUCTS, Cost, _graph, keras_macs
from edgeveil.trainer.graphs.read import read

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
        """The same as plain values, for JSON."""
        return {**asdict(self), "ops": dict(sorted(self.ops.items()))}


def file_cost(data: bytes, file_format: str) -> FullCost:
    """The cost of a ``"tflite"``, ``"onnx"`` or ``"numpy"`` file. Raises ``BadInput`` for what cannot be counted."""
    graph = read(data, file_format)
    cost = _graph(graph)
    frames = max(next((t.shape[0] for t in graph.inputs.values() if t.shape), 1), 1)
    return _full(graph, cost, graph.weight_bytes(), frames)


def keras_cost(model: Any) -> FullCost:
    """The same of a built Keras model, its tensors taken as float32. Raises ``BadInput`` as ``keras_macs`` does."""
    cost = keras_macs(model)
    return _full(_keras_graph(model), cost, 4 * sum(math.prod(v.shape) for v in model.weights), 1)


def model_file_cost(path: Any) -> FullCost:
    """The cost of a .tflite, .onnx or .keras file by its name. Raises ``BadInput`` where it is none of these."""
    if path.suffix == ".keras":
        import keras

        import edgeveil.models.layers  # noqa: F401  its layers are registered with Keras

        try:
            return keras_cost(keras.saving.load_model(path, compile=False))
        except (OSError, ValueError, TypeError) as error:
            first = (str(error).strip().splitlines() or ["no message"])[0]
            raise BadInput(f"{path} was expected to be a Keras model, and cannot be loaded: {first[:200]}.") from None
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
        return 0  # open sizes are refused by the lint; they have no bytes to count
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


def _has_macs(op: Op) -> bool:
    return op.kind in _PRODUCTS or bool(op.attributes.get("macs"))


def _moved(op: Op) -> int:
    if _has_macs(op) or op.kind in _IN_PLACE:
        return 0
    return sum(_bytes(t) for t in (*_data(op.inputs), *op.outputs))


def _groups(graph: Graph) -> dict[int, int]:
    """``id`` of a tensor -> that of the one whose memory it can take over, being its last user's output."""
    users = graph.users()
    ends = {id(tensor) for tensor in graph.outputs.values()}
    root: dict[int, int] = {}
    for op in graph.ops:
        data = _data(op.inputs)
        if op.kind not in _IN_PLACE or not data or not op.outputs:
            continue
        first = max(data, key=lambda t: t.size)
        # Taken over only where nobody needs it afterwards, and where as many numbers come out.
        if len(users[id(first)]) == 1 and id(first) not in ends and first.size == op.outputs[0].size:
            root[id(op.outputs[0])] = root.get(id(first), id(first))
    return root


def _peak(graph: Graph, groups: Mapping[int, int]) -> int:
    """Bytes of the tensors that live at once, at most. A group is as large as its smallest member: what is kept."""
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
    """A Keras model as the same kind of graph, one operation a layer, models inside it laid open.

    ``given`` are the tensors that stand for its inputs where it stands inside another model.
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
