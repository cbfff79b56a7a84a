"""Multiply-adds and parameters of a network, counted the same way in Keras, TFLite and ONNX.

MACs are those of convolutions, transposed convolutions and matrix products for one frame; other operations count 0, as
in the papers (MobileNetV1 1.0 224: 568.74 million). Two floating-point operations make one MAC.

Parameters are those of the network as it ships: batch normalisation folded into the layer before it, and one bias for
every output channel of a layer, present or not. So an exported file has the figures of its Keras model at every
precision; Keras's ``count_params`` is higher by what folding saves. A converter may or may not move batch normalisation
that follows an activation, so there parameters may differ by its two vectors.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput

# A network file of any format as a graph: for the lint, the counters and the manifest.


@dataclass(frozen=True)
class Tensor:
    """A tensor of the graph. ``shape`` has -1 where a size is left open; ``bytes`` is 0 unless it is a constant."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    constant: bool = False
    bytes: int = 0
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Op:
    """One operation. ``inputs`` has None where an optional input is left out; ``version`` is TFLite's own number."""

    kind: str
    name: str
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    version: int = 1
    domain: str = ""
    attributes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Graph:
    """The operations in order, and the inputs and outputs by the model's names for them."""

    format: str  # "tflite" or "onnx"
    ops: tuple[Op, ...]
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    min_runtime_version: str | None = None
    opset: int = 0  # ONNX only, as is ir
    ir: int = 0

    def tensors(self) -> list[Tensor]:
        """Every tensor of an operation, and the graph's inputs and outputs; each once, in order."""
        of_ops = (tensor for op in self.ops for tensor in (*op.inputs, *op.outputs))
        every = (*self.inputs.values(), *self.outputs.values(), *of_ops)
        return list({id(tensor): tensor for tensor in every if tensor is not None}.values())

    def weight_bytes(self) -> int:
        """The size of the constants in bytes."""
        return sum(tensor.bytes for tensor in self.tensors())

    def makers(self) -> dict[int, Op]:
        """``id`` of a tensor -> the operation that makes it."""
        return {id(tensor): op for op in self.ops for tensor in op.outputs}

    def users(self) -> dict[int, list[Op]]:
        """``id`` of a tensor -> the operations that take it."""
        found: dict[int, list[Op]] = {}
        for op in self.ops:
            for tensor in op.inputs:
                if tensor is not None:
                    found.setdefault(id(tensor), []).append(op)
        return found


class Cost(NamedTuple):
    """Multiply-adds for one frame, and parameters."""

    macs: int
    parameters: int


# Layers that are one product of a kernel with the input, and the kernel's axis of output channels.
_KERNELS = {
    "Conv1D": -1,
    "Conv2D": -1,
    "Conv1DTranspose": -2,
    "Conv2DTranspose": -2,
    "Dense": -1,
    "DepthwiseConv2D": None,
    "SeparableConv2D": None,
}
_UNCOUNTED = {
    "Matmul",
    "Einsum",
    "Dot",
    "Tensordot",
    "MultiHeadAttention",
    "LSTM",
    "SimpleRNN",
    "Bidirectional",
    "Conv3D",
}


def keras_macs(model: Any) -> Cost:
    """The cost of a built Keras model, sequential or functional, models inside it included.

    Raises ``BadInput`` for a layer that it cannot count.
    """
    import keras

    if isinstance(model, keras.Sequential):
        model = model._functional  # Keras's graph of the list of layers
    if not isinstance(model, keras.Model) or not hasattr(model, "_nodes_by_depth"):
        raise BadInput(f"expected a sequential or functional Keras model to count; got {type(model).__name__}.")
    nodes = [node for depth in model._nodes_by_depth.values() for node in depth]
    makers = {id(tensor): node for node in nodes for tensor in node.output_tensors}
    users: dict[int, int] = {}
    for node in nodes:
        for tensor in node.input_tensors:
            users[id(tensor)] = users.get(id(tensor), 0) + 1
    macs, parameters, seen = 0, 0, set()
    for node in nodes:
        layer, inputs, outputs = node.operation, node.input_tensors, node.output_tensors
        if isinstance(layer, keras.Model):
            cost = keras_macs(layer)
        elif isinstance(layer, keras.layers.BatchNormalization):
            folds = _folds(makers.get(id(inputs[0]))) and users[id(inputs[0])] == 1
            cost = Cost(0, 0 if folds else 2 * inputs[0].shape[layer.axis])
        else:
            cost = _layer(layer, inputs, outputs)
        macs += cost.macs
        parameters += 0 if id(layer) in seen else cost.parameters
        seen.add(id(layer))
    return Cost(macs, parameters)


def _folds(node: Any) -> bool:
    layer = None if node is None else node.operation
    activation = getattr(getattr(layer, "activation", None), "__name__", None)
    return type(layer).__name__ in _KERNELS and activation == "linear"


def _layer(layer: Any, inputs: Any, outputs: Any) -> Cost:
    kind = type(layer).__name__
    if kind in _UNCOUNTED:
        raise BadInput(f"do not know how to count the layer {layer.name!r} ({kind}); use convolutions and Dense.")
    if kind == "GRU":  # each step meets both kernels
        size = math.prod(layer.cell.kernel.shape) + math.prod(layer.cell.recurrent_kernel.shape)
        return Cost(inputs[0].shape[1] * size, size + math.prod(layer.cell.bias.shape))
    if kind not in _KERNELS:
        return Cost(0, sum(math.prod(weight.shape) for weight in getattr(layer, "weights", ())))
    places = math.prod(outputs[0].shape[1:-1])
    if kind == "DepthwiseConv2D":
        size = math.prod(layer.kernel.shape)
        return Cost(places * size, size + outputs[0].shape[-1])
    if kind == "SeparableConv2D":
        deep, wide = math.prod(layer.depthwise_kernel.shape), math.prod(layer.pointwise_kernel.shape)
        biases = layer.pointwise_kernel.shape[-2] + layer.pointwise_kernel.shape[-1]
        return Cost(places * (deep + wide), deep + wide + biases)
    if kind.endswith("Transpose"):
        places = math.prod(inputs[0].shape[1:-1])  # each input place meets the whole kernel
    size = math.prod(layer.kernel.shape)
    return Cost(places * size, size + layer.kernel.shape[_KERNELS[kind]])


PRODUCTS = {
    # kind: positions of the weights and the data among the inputs, and the weights' axis of output channels
    "CONV_2D": (1, 0, 0),
    "DEPTHWISE_CONV_2D": (1, 0, -1),
    "FULLY_CONNECTED": (1, 0, 0),
    "TRANSPOSE_CONV": (1, 2, 0),
    "BATCH_MATMUL": (1, 0, -1),
    "Conv": (1, 0, 0),
    "ConvTranspose": (1, 0, 1),
    "MatMul": (1, 0, -1),
    "Gemm": (1, 0, -1),
}
_UNCOUNTED_OPS = {"LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "RNN", "SVDF", "GRU", "Einsum"}
_UNCOUNTED_OPS |= {"CONV_3D", "CONV_3D_TRANSPOSE", "ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"}
# Operations between a stored weight and the operation that uses it, or between a product and an addition to it.
_SAME = {"DEQUANTIZE", "QUANTIZE", "DequantizeLinear", "QuantizeLinear", "Cast", "Identity"}
_MOVES = _SAME | {"Reshape", "RESHAPE", "Transpose", "TRANSPOSE", "Squeeze", "SQUEEZE", "Unsqueeze", "EXPAND_DIMS"}
_AFFINE = {"Add", "ADD", "Mul", "MUL", "Sub", "SUB", "Div", "DIV"}


def graph_macs(graph: Graph) -> Cost:
    """The cost of a TFLite, ONNX or numpy file of any precision. Raises ``BadInput`` for what it cannot count."""
    makers = graph.makers()
    macs = parameters = 0
    for op in graph.ops:
        if op.kind in _UNCOUNTED_OPS:
            raise BadInput(f"do not know how to count the operation {op.name} ({op.kind}).")
        if op.kind in PRODUCTS:
            cost = _product(op, makers)
            macs, parameters = macs + cost.macs, parameters + cost.parameters
        elif op.kind in ("BatchNormalization", "PRelu", "PRELU") or op.kind in _AFFINE:
            parameters += _vectors(op, makers)
    # The first size of the inputs is the number of frames at a time.
    frames = next((tensor.shape[0] for tensor in graph.inputs.values() if tensor.shape), 1)
    return Cost(macs // max(frames, 1), parameters)


def _stored(tensor: Tensor | None, makers: dict[int, Op]) -> Tensor | None:
    """The constant behind a tensor, through operations that only change its type; None where it is data."""
    while tensor is not None and not tensor.constant:
        op = makers.get(id(tensor))
        if op is None or op.kind not in _SAME:
            return None
        tensor = op.inputs[0]
    return tensor


def _product(op: Op, makers: dict[int, Op]) -> Cost:
    place, other, channel = PRODUCTS[op.kind]
    weights, data, out = op.inputs[place], op.inputs[other], op.outputs[0]
    if data is None:
        raise BadInput(f"the operation {op.name} ({op.kind}) has no input; export the run again.")
    kernel = _stored(weights, makers)
    if op.kind == "Gemm" and op.attributes.get("transB"):
        channel = 0
    if kernel is None:  # a product of two things that are computed
        return Cost(out.size * data.shape[-1], 0)
    if op.kind == "DEPTHWISE_CONV_2D":
        macs = out.size * math.prod(kernel.shape[1:-1])
    elif op.kind == "TRANSPOSE_CONV":
        macs = math.prod(data.shape[:-1]) * kernel.size
    elif op.kind == "ConvTranspose":
        macs = data.shape[0] * math.prod(data.shape[2:]) * kernel.size
    else:
        macs = out.size * kernel.size // kernel.shape[channel]
    biases = kernel.shape[channel]
    if op.kind == "ConvTranspose":
        biases *= op.attributes.get("group", 1)
    return Cost(macs, kernel.size + biases)


def _vectors(op: Op, makers: dict[int, Op]) -> int:
    """Parameters of an operation that scales or shifts by channel, unless it folds into a product before it."""
    stored = [_stored(tensor, makers) for tensor in op.inputs]
    if op.kind == "BatchNormalization":
        return 2 * op.outputs[0].shape[1]
    constants = [tensor.size for tensor in stored if tensor is not None and tensor.size > 1]
    data = [tensor for tensor, constant in zip(op.inputs, stored, strict=True) if constant is None]
    if op.kind in _AFFINE and len(data) == 1 and _after_product(data[0], makers):
        return 0
    return sum(constants)


def _after_product(tensor: Tensor | None, makers: dict[int, Op]) -> bool:
    while tensor is not None and (op := makers.get(id(tensor))) is not None:
        if op.kind in PRODUCTS:
            return True
        if op.kind in _MOVES:
            tensor = op.inputs[0]
        elif op.kind in _AFFINE:
            data = [t for t in op.inputs if _stored(t, makers) is None]
            tensor = data[0] if len(data) == 1 else None
        else:
            return False
    return False


# Read a TFLite flatbuffer with the schema that ai-edge-litert carries; no interpreter is opened.


_SIGNATURE = "serving_default"


def read_tflite(data: bytes) -> Graph:
    """The main subgraph of a flatbuffer. Raises ``BadInput`` where the bytes are not one."""
    from ai_edge_litert import schema_py_generated as schema

    if data[4:8] != b"TFL3":
        raise BadInput("expected a TFLite flatbuffer; these bytes lack its identifier. Export the run again.")
    try:
        return _read(schema.Model.GetRootAs(data), schema)
    except (struct.error, IndexError, TypeError, AttributeError) as error:
        raise BadInput(f"cannot read the TFLite flatbuffer ({type(error).__name__}); export the run again.") from None


def _read(model: Any, schema: Any) -> Graph:
    kinds = {value: key for key, value in vars(schema.BuiltinOperator).items() if key.isupper()}
    dtypes = {value: key.lower() for key, value in vars(schema.TensorType).items() if key.isupper()}
    sub = model.Subgraphs(0)
    tensors = [_tensor(sub.Tensors(place), model, dtypes) for place in range(sub.TensorsLength())]

    def at(place: int) -> Tensor | None:
        return None if place < 0 else tensors[place]

    ops = []
    for number in range(sub.OperatorsLength()):
        entry = sub.Operators(number)
        code = model.OperatorCodes(entry.OpcodeIndex())
        # Old writers fill only the one-byte field, new ones both where the code fits into it.
        kind = kinds[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())]
        if kind == "CUSTOM":
            kind = f"CUSTOM {(code.CustomCode() or b'?').decode()}"
        ops.append(
            Op(
                kind=kind,
                name=f"{kind}-{number}",
                inputs=tuple(at(entry.Inputs(i)) for i in range(entry.InputsLength())),
                outputs=tuple(tensors[entry.Outputs(i)] for i in range(entry.OutputsLength())),
                version=code.Version(),
            )
        )
    inputs, outputs = _ends(model, sub, tensors)
    return Graph(
        format="tflite",
        ops=tuple(ops),
        inputs=inputs,
        outputs=outputs,
        min_runtime_version=_min_runtime_version(model),
    )


def _tensor(entry: Any, model: Any, dtypes: dict[int, str]) -> Tensor:
    # The signature has -1 where a size is open; the shape then has 1.
    many = entry.ShapeSignatureLength()
    shape = [entry.ShapeSignature(i) if many else entry.Shape(i) for i in range(many or entry.ShapeLength())]
    quantisation = entry.Quantization()
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    size = model.Buffers(entry.Buffer()).DataLength() if entry.Buffer() else 0
    if quantisation is not None:
        scales = tuple(float(quantisation.Scale(i)) for i in range(quantisation.ScaleLength()))
        zero_points = tuple(int(quantisation.ZeroPoint(i)) for i in range(quantisation.ZeroPointLength()))
    return Tensor(
        name=entry.Name().decode(),
        shape=tuple(int(size) for size in shape),
        dtype=dtypes[entry.Type()],
        constant=size > 0,
        bytes=size,
        scales=scales,
        zero_points=zero_points,
    )


def _ends(model: Any, sub: Any, tensors: list[Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Inputs and outputs by the names of the signature; by their own names in a file without one."""
    for number in range(model.SignatureDefsLength()):
        signature = model.SignatureDefs(number)
        if (signature.SignatureKey() or b"").decode() != _SIGNATURE:
            continue
        inputs = [signature.Inputs(i) for i in range(signature.InputsLength())]
        outputs = [signature.Outputs(i) for i in range(signature.OutputsLength())]
        ins, outs = ({end.Name().decode(): tensors[end.TensorIndex()] for end in ends} for ends in (inputs, outputs))
        return ins, outs
    inputs = [tensors[sub.Inputs(i)] for i in range(sub.InputsLength())]
    outputs = [tensors[sub.Outputs(i)] for i in range(sub.OutputsLength())]
    return {tensor.name: tensor for tensor in inputs}, {tensor.name: tensor for tensor in outputs}


def _min_runtime_version(model: Any) -> str | None:
    for number in range(model.MetadataLength()):
        entry = model.Metadata(number)
        if entry.Name() == b"min_runtime_version":
            return bytes(model.Buffers(entry.Buffer()).DataAsNumpy()).rstrip(b"\0").decode() or None
    return None


# A cleaner's network as plain arrays, for the numpy backend on boards without an interpreter.


def convert(model: Any) -> bytes:
    """A ``linear_cleaner`` as ``.npz`` (edge_runtime/backends/numpy_linear.py), the same bytes every time."""
    from edgeveil.models.cleaners import arrays

    if model.name != "linear_cleaner":
        raise BadInput(f"the format numpy is for linear cleaners; {model.name!r} is another network.")
    file = io.BytesIO()
    np.savez(file, **cast(Any, arrays(model)))
    return file.getvalue()


def read_arrays(data: bytes) -> Graph:
    """The same file as the graph that the backend computes: for lint, counters and tensor names."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        found = {name: file[name] for name in file.files}
    features, rank = found["encoder"].shape

    def constant(name: str, array: np.ndarray) -> Tensor:
        return Tensor(name, array.shape, array.dtype.name, constant=True, bytes=array.nbytes)

    def flow(name: str, size: int) -> Tensor:
        return Tensor(name, (1, size), "float32")

    x, c, delta, left, code, output = (
        flow(name, features if name in ("features", "output") else rank)
        for name in ("features", "c", "delta", "left", "code", "output")
    )
    before = Tensor("before", (rank, rank), "float32", constant=True)  # made when it is opened
    encoder, decoder = (constant(name, found[name]) for name in ("encoder", "decoder"))
    encoder_bias, decoder_bias, eps = (constant(name, found[name]) for name in ("encoder_bias", "decoder_bias", "eps"))
    ops = (
        Op("MatMul", "encoder", (x, encoder, encoder_bias), (c,)),
        Op("Square", "square", (c,), (delta,)),
        Op("MatMul", "left", (delta, before, eps), (left,)),
        Op("Shrink", "shrink", (left, delta, c), (code,)),
        Op("MatMul", "decoder", (code, decoder, decoder_bias), (output,)),
    )
    return Graph("numpy", ops, {"features": x}, {"output": output, "code": code})
