"""Multiply-adds and parameters of a network, counted the same way in Keras, TFLite and ONNX.

MACs are those of convolutions, transposed convolutions and matrix products for one frame; other operations count 0, as
in the papers (MobileNetV1 1.0 224: 568.74 million). Two floating-point operations make one MAC.

Parameters are those of the network as it ships: batch normalisation folded into the layer before it, and one bias for
every output channel of a layer, present or not. So an exported file has the figures of its Keras model at every
precision; Keras's ``count_params`` is higher by what folding saves. A converter may or may not move batch normalisation
that follows an activation, so there parameters may differ by its two vectors.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from edgeveil.edge_runtime.errors import BadInput


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
    number: int | None = None  # the value of an ONNX constant that is one whole number or truth value

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Op:
    """One operation. ``inputs`` has None where an optional input is left out; ``version`` is TFLite's own number.

    ``bodies`` are the graphs that it runs: the branches of an If, or the body of a loop, which runs ``repeats`` times
    (None where that is computed).
    """

    kind: str
    name: str
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    version: int = 1
    domain: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)  # whole numbers, texts, and lengths of lists
    bodies: tuple[Graph, ...] = ()
    repeats: int | None = 1

    @property
    def title(self) -> str:
        """The kind, with its domain where that is not the format's own."""
        return self.kind if self.domain in ("", "ai.onnx") else f"{self.kind} ({self.domain})"


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
    others: tuple[str, ...] = ()  # TFLite's signatures that run another subgraph, which is not in this graph

    def tensors(self) -> list[Tensor]:
        """Every tensor of an operation, and the graph's inputs and outputs; each once, in order."""
        of_ops = (tensor for op in self.ops for tensor in (*op.inputs, *op.outputs))
        every = (*self.inputs.values(), *self.outputs.values(), *of_ops)
        return list({id(tensor): tensor for tensor in every if tensor is not None}.values())

    def walk(self) -> Iterator[Op]:
        """Every operation, those of bodies included."""
        for op in self.ops:
            yield op
            for body in op.bodies:
                yield from body.walk()

    def weight_bytes(self) -> int:
        """The size of the constants in bytes, those of bodies included."""
        graphs = (self, *(body for op in self.walk() for body in op.bodies))
        return sum({id(tensor): tensor.bytes for graph in graphs for tensor in graph.tensors()}.values())

    @property
    def frames(self) -> int:
        """How many frames one run takes: the first size of the inputs, where every product has it too; else 1.

        Where there are loops or recurrent layers, the first size may be the steps of one frame.
        """
        if any(op.bodies or op.kind in _RECURRENT for op in self.ops):
            return 1
        firsts = {tensor.shape[0] for tensor in self.inputs.values() if tensor.shape}
        first = firsts.pop() if len(firsts) == 1 else 1
        if first < 2:
            return 1
        ends = [tensor.shape[:1] for tensor in self.outputs.values() if tensor.shape]
        makers = self.makers()
        met = [size for op in self.ops if op.kind in PRODUCTS for size in _rows(op, makers)]
        return first if all(size and size[0] % first == 0 for size in (*ends, *met)) else 1

    def makers(self) -> dict[int, Op]:
        """``id`` of a tensor -> the operation that makes it."""
        return {id(tensor): op for op in self.ops for tensor in op.outputs}

    def users(self) -> dict[int, list[Op]]:
        """``id`` of a tensor -> the operations that take it."""
        by_tensor: dict[int, list[Op]] = {}
        for op in self.ops:
            for tensor in op.inputs:
                if tensor is not None:
                    by_tensor.setdefault(id(tensor), []).append(op)
        return by_tensor


class Cost(NamedTuple):
    """Multiply-adds for one frame, and parameters."""

    macs: int
    parameters: int


class Counted(NamedTuple):
    """``cost`` of all that can be counted, and how often each operation is there that cannot, with the reason."""

    cost: Cost
    uncounted: Mapping[str, int]


NOTHING, OPEN, OWN = Cost(0, 0), ": a size is open", ": a layer of another package"

# Layers that are one product of a kernel with the input, and the kernel's axis of output channels.
_KERNELS = {
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D", "Dense"), -1),
    **dict.fromkeys(("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"), -2),
    **dict.fromkeys(("DepthwiseConv1D", "DepthwiseConv2D", "SeparableConv1D", "SeparableConv2D")),
}
_UNCOUNTED = {"Matmul", "Einsum", "Dot", "Tensordot", "EinsumDense", "Bidirectional", "TimeDistributed", "RNN", "Conv"}
_UNCOUNTED |= {"MultiHeadAttention", "GroupedQueryAttention", "Attention", "AdditiveAttention", "DotProductAttention"}
_UNCOUNTED |= {"ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "SpectralNormalization", "MelSpectrogram", "STFTSpectrogram"}
_UNCOUNTED |= {"DepthwiseConv", "SeparableConv", "ConvTranspose", "Inner", "Vdot", "Kron", "Correlate"}  # of keras.ops
_UNCOUNTED |= {"TFSMLayer", "JaxLayer", "FlaxLayer", "TorchModuleWrapper"}


def keras_macs(model: Any) -> Cost:
    """The cost of a built Keras model. Raises ``BadInput`` for a layer that it cannot count."""
    cost, uncounted = counted_keras(model)
    unknown = [name for name in uncounted if not name.endswith(OWN)]  # its operations are seen once it is exported
    if unknown:
        raise BadInput(f"do not know how to count the layer {', '.join(unknown)}; use convolutions and Dense.")
    return cost


def counted_keras(model: Any) -> Counted:
    """The cost of a built Keras model, sequential or functional, models inside it included.

    Raises ``BadInput`` for a model that is neither.
    """
    import keras

    if isinstance(model, keras.Sequential):
        model = model._functional  # Keras's graph of the list of layers
    if not isinstance(model, keras.Model) or not hasattr(model, "_nodes_by_depth"):
        raise BadInput(f"expected a sequential or functional Keras model to count; got {type(model).__name__}.")
    nodes = [node for depth in model._nodes_by_depth.values() for node in depth]
    makers = {id(tensor): node for node in nodes for tensor in node.output_tensors}
    users = Counter(id(tensor) for node in nodes for tensor in node.input_tensors)
    macs, parameters, seen = 0, 0, set()
    uncounted: Counter[str] = Counter()
    for node in nodes:
        layer, inputs, outputs = node.operation, node.input_tensors, node.output_tensors
        if isinstance(layer, keras.Model):
            cost, inner = counted_keras(layer)
            uncounted.update(inner)
        elif isinstance(layer, keras.layers.BatchNormalization):
            folds = _folds(makers.get(id(inputs[0]))) and users[id(inputs[0])] == 1
            cost = Cost(0, 0 if folds else 2 * inputs[0].shape[layer.axis])
        else:
            reason, cost = _layer(layer, inputs, outputs)
            if reason is not None:
                uncounted[f"{layer.name!r} ({type(layer).__name__}){reason}"] += 1
        macs += cost.macs
        parameters += 0 if id(layer) in seen else cost.parameters
        seen.add(id(layer))
    return Counted(Cost(macs, parameters), uncounted)


def _folds(node: Any) -> bool:
    layer = None if node is None else node.operation
    activation = getattr(getattr(layer, "activation", None), "__name__", None)
    return type(layer).__name__ in _KERNELS and activation == "linear"


def _layer(layer: Any, inputs: Any, outputs: Any) -> tuple[str | None, Cost]:
    """Why a layer cannot be counted (None: it can; "": its kind), and what can be counted of it."""
    kind = type(layer).__name__
    own = not type(layer).__module__.startswith(("keras.", "edgeveil.models."))
    weights = sum(math.prod(weight.shape) for weight in getattr(layer, "weights", ()))
    if kind in _UNCOUNTED or own:
        return OWN if own else "", Cost(0, weights)
    recurrent = kind in ("GRU", "LSTM", "SimpleRNN")  # each step meets both kernels
    if kind not in _KERNELS and not recurrent:
        return None, Cost(0, weights)
    (_, *before), (_, *after) = inputs[0].shape, outputs[0].shape
    if None in (*before, *after):
        return OPEN, Cost(0, weights)
    if recurrent:
        size = math.prod(layer.cell.kernel.shape) + math.prod(layer.cell.recurrent_kernel.shape)
        return None, Cost(before[0] * size, weights)
    first = getattr(layer, "data_format", None) == "channels_first"
    spatial = (before if kind.endswith("Transpose") else after)[1:] if first else None
    # Of a transposed convolution each input place meets the whole kernel.
    places = math.prod((before if kind.endswith("Transpose") else after)[:-1] if spatial is None else spatial)
    if kind.startswith("DepthwiseConv"):
        size = math.prod(layer.kernel.shape)
        return None, Cost(places * size, size + after[0 if first else -1])
    if kind.startswith("SeparableConv"):
        deep, wide = math.prod(layer.depthwise_kernel.shape), math.prod(layer.pointwise_kernel.shape)
        biases = layer.pointwise_kernel.shape[-2] + layer.pointwise_kernel.shape[-1]
        return None, Cost(places * (deep + wide), deep + wide + biases)
    size = math.prod(layer.kernel.shape)
    return None, Cost(places * size, size + layer.kernel.shape[_KERNELS[kind]])


def _out(op: Op, _data: Tensor, kernel: Tensor, axis: int) -> int:
    """Each output value is a sum over the kernel of its channel."""
    return op.outputs[0].size * kernel.size // kernel.shape[axis]


def _in(_op: Op, data: Tensor, kernel: Tensor, axis: int) -> int:
    """Each place of the input meets the whole kernel; ``axis`` is that of its channels."""
    return data.size // data.shape[axis] * kernel.size


def _matrix(op: Op, data: Tensor, _kernel: Tensor, _axis: int) -> int:
    """A product of matrices, batched or not, with either factor turned."""
    turned = op.attributes.get("transA") or op.attributes.get("adj_x")
    return op.outputs[0].size * data.shape[-2 if turned and len(data.shape) > 1 else -1]


class Product(NamedTuple):
    """How a product is counted: by ``macs`` of the operation, its data, its weights and ``axis``."""

    weights: int  # its position among the inputs, as is that of the data
    data: int
    channel: int  # the weights' axis of output channels
    macs: Callable[[Op, Tensor, Tensor, int], int]
    axis: int


PRODUCTS = {
    "CONV_2D": Product(1, 0, 0, _out, 0),
    "CONV_3D": Product(1, 0, -1, _out, -1),
    "DEPTHWISE_CONV_2D": Product(1, 0, -1, _out, -1),
    "FULLY_CONNECTED": Product(1, 0, 0, _out, 0),
    "TRANSPOSE_CONV": Product(1, 2, 0, _in, -1),
    "CONV_3D_TRANSPOSE": Product(1, 2, -2, _in, -1),
    "BATCH_MATMUL": Product(1, 0, -1, _matrix, -1),
    **dict.fromkeys(("Conv", "FusedConv", "ConvInteger", "DeformConv"), Product(1, 0, 0, _out, 0)),
    "QLinearConv": Product(3, 0, 0, _out, 0),
    "ConvTranspose": Product(1, 0, 1, _in, 1),
    **dict.fromkeys(("MatMul", "FusedMatMul", "MatMulInteger"), Product(1, 0, -1, _matrix, -1)),
    "QLinearMatMul": Product(3, 0, -1, _matrix, -1),
    **dict.fromkeys(("Gemm", "FusedGemm"), Product(1, 0, -1, _matrix, -1)),
}
# Recurrent layers: each step meets every kernel. Positions of the data, the kernels and the biases.
_RECURRENT = {
    **dict.fromkeys(("LSTM", "GRU", "RNN"), ((1, 2), (3,))),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": ((*range(1, 9), 16), (*range(9, 16), 17)),
    "UNIDIRECTIONAL_SEQUENCE_RNN": ((1, 2), (3,)),
}
# Products in them that are not counted here, in the formats' own operations.
_UNCOUNTED_OPS = {"BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "SVDF", "Attention", "LinearAttention"}
_UNCOUNTED_OPS |= {"CausalConvWithState", "DELEGATE"} | {
    f"STABLEHLO_{kind}" for kind in ("DOT_GENERAL", "CONVOLUTION", "COMPOSITE", "CUSTOM_CALL", "WHILE")
}
# Of other domains: those above by their names, and those without a product.
_KNOWN_ELSEWHERE = {"CUSTOM TFLite_Detection_PostProcess", *("Gelu", "FastGelu", "BiasGelu", "QuickGelu", "Trilu")}
_KNOWN_ELSEWHERE |= {"SkipLayerNormalization", "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization"}
_KNOWN_ELSEWHERE |= {f"QLinear{kind}" for kind in ("Add", "Mul", "Sigmoid", "LeakyRelu", "Concat", "Softmax")}
_KNOWN_ELSEWHERE |= {"QLinearGlobalAveragePool", "QLinearAveragePool", "QLinearReduceMean", "NhwcMaxPool"}
_KNOWN_ELSEWHERE |= {"Normalizer", "Scaler", "ZipMap", "CastMap", "LabelEncoder", "Imputer", "OneHotEncoder"}
_KNOWN_ELSEWHERE |= {"Binarizer", "FeatureVectorizer", "ArrayFeatureExtractor", "CategoryMapper", "DictVectorizer"}
_LINEAR = {"LinearClassifier", "LinearRegressor", "Scaler"}  # of ai.onnx.ml; their weights are attributes
_FAMILIAR = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")  # domains whose names are those above
# Operations between a stored weight and the operation that uses it, or between a product and an addition to it.
_SAME = {"DEQUANTIZE", "QUANTIZE", "DequantizeLinear", "QuantizeLinear", "Cast", "CAST", "Identity"}
_MOVES = _SAME | {"Reshape", "RESHAPE", "Transpose", "TRANSPOSE", "Squeeze", "SQUEEZE", "Unsqueeze", "EXPAND_DIMS"}
_MOVES |= {"DENSIFY"}
_AFFINE = {"Add", "ADD", "Mul", "MUL", "Sub", "SUB", "Div", "DIV"}
_SCALED = {"BatchNormalization", "PRelu", "PRELU", "LayerNormalization", "InstanceNormalization", "GroupNormalization"}
_SCALED |= {"RMSNormalization", "SkipLayerNormalization", "SimplifiedLayerNormalization"}
_SCALED |= {"SkipSimplifiedLayerNormalization", "BiasGelu"}
_TABLES = {"Gather", "GATHER", "EMBEDDING_LOOKUP", "GatherBlockQuantized"}  # rows of a table of weights


def graph_macs(graph: Graph) -> Cost:
    """The cost of a TFLite, ONNX or numpy file of any precision. Raises ``BadInput`` for what it cannot count."""
    cost, uncounted = counted(graph)
    if uncounted:
        raise BadInput(f"do not know how to count {', '.join(uncounted)}.")
    return cost


def counted(graph: Graph) -> Counted:
    """The cost of one frame in a file of anybody's. Of the branches of an If the costliest runs."""
    seen: set[int] = set()
    total = _counted(graph, graph.makers(), seen)
    others = {f"the signature {name}: it runs another subgraph": 1 for name in graph.others}
    return Counted(Cost(total.cost.macs // graph.frames, total.cost.parameters), {**total.uncounted, **others})


def _counted(graph: Graph, makers: dict[int, Op], seen: set[int]) -> Counted:
    macs = parameters = 0
    uncounted: Counter[str] = Counter()
    for op in graph.ops:
        bodies = [_counted(body, {**makers, **body.makers()}, seen) for body in op.bodies]
        for body in bodies:
            parameters += body.cost.parameters
            uncounted.update(body.uncounted)
        most = max((body.cost.macs for body in bodies), default=0)
        if op.repeats is None and (most or any(body.uncounted for body in bodies)):
            uncounted[f"{op.title}: how often it runs is computed"] += 1
        macs += most * (op.repeats or 0)
        reason, cost = _op(op, makers, seen)
        if reason is not None:
            uncounted[f"{op.title}{reason}"] += 1
        macs, parameters = macs + cost.macs, parameters + cost.parameters
    return Counted(Cost(macs, parameters), uncounted)


def _op(op: Op, makers: dict[int, Op], seen: set[int]) -> tuple[str | None, Cost]:
    """Why an operation cannot be counted (None: it can; "": its kind), and what can be counted of it."""
    kind, known = op.kind, op.domain in ("", "ai.onnx") and not op.kind.startswith("CUSTOM")
    if op.domain not in _FAMILIAR:
        return "", NOTHING
    # ONNX's LSTM has at most 8 inputs, TFLite's of that name at least 20.
    long = kind == "LSTM" and len(op.inputs) > 8
    recurrent = _RECURRENT["UNIDIRECTIONAL_SEQUENCE_LSTM"] if long else _RECURRENT.get(kind)
    if kind in PRODUCTS:
        return _product(op, makers, seen)
    if recurrent is not None:
        return _recurrent(op, recurrent, makers, seen)
    if kind == "Einsum":
        return _einsum(op, makers, seen)
    if kind in _LINEAR:
        return _linear(op)
    if kind in _SCALED or kind in _AFFINE or kind in _TABLES:
        return None, Cost(0, _vectors(op, makers, seen))
    missing = kind in _UNCOUNTED_OPS or (not known and kind not in _KNOWN_ELSEWHERE)
    return "" if missing else None, NOTHING


def _factors(op: Op) -> list[Tensor | None]:
    """The weights and the data of a product; None of what is missing."""
    product = PRODUCTS[op.kind]
    return [op.inputs[place] if place < len(op.inputs) else None for place in (product.weights, product.data)]


def _rows(op: Op, makers: dict[int, Op]) -> Iterator[tuple[int, ...]]:
    """The first sizes of a product that frames in a batch have in common; 1 where it mixes what would be frames."""
    weights, data = _factors(op)
    if data is not None and not data.constant:
        yield data.shape[:1] if len(data.shape) > 1 else (1,)
    if weights is not None and _stored(weights, makers) is None:
        yield weights.shape[:1] if PRODUCTS[op.kind].macs is _matrix and len(weights.shape) > 2 else (1,)


def _stored(tensor: Tensor | None, makers: dict[int, Op]) -> Tensor | None:
    """The constant behind a tensor, through operations that only move it or change its type; None where it is data.

    What is computed of constants alone is one too.
    """
    while tensor is not None and not tensor.constant:
        op = makers.get(id(tensor))
        if op is not None and op.kind in _MOVES:
            tensor = op.inputs[0]
            continue
        return tensor if op is not None and not _open(tensor) and _of_constants(op, makers) else None
    return tensor


def _of_constants(op: Op, makers: dict[int, Op]) -> bool:
    """Whether all that an operation computes comes of stored values."""
    inputs = [tensor for tensor in op.inputs if tensor is not None]
    makes = (makers.get(id(tensor)) for tensor in inputs if not tensor.constant)
    return bool(inputs) and not op.bodies and all(one is not None and _of_constants(one, makers) for one in makes)


def _open(*tensors: Tensor) -> bool:
    return any(size < 0 for tensor in tensors for size in tensor.shape)


def _once(tensor: Tensor | None, seen: set[int]) -> int:
    """The size of a constant that is met for the first time."""
    if tensor is None or id(tensor) in seen:
        return 0
    seen.add(id(tensor))
    return tensor.size


def _product(op: Op, makers: dict[int, Op], seen: set[int]) -> tuple[str | None, Cost]:
    product = PRODUCTS[op.kind]
    weights, data = _factors(op)
    if weights is None or data is None:
        return ": an input is missing", NOTHING
    stored = _stored(weights, makers)
    moved = stored is not None and stored is not weights and stored.size == weights.size and not _open(weights)
    kernel = weights if stored is None or moved else stored
    first = stored is not None and id(stored) not in seen
    size = _once(stored, seen)
    channel = 0 if op.attributes.get("transB") else product.channel
    groups = op.attributes.get("group", 1) if op.kind == "ConvTranspose" else 1
    biases = kernel.shape[channel] * groups if first and kernel.shape else 0
    left = _stored(data, makers) if stored is None and product.macs is _matrix and len(data.shape) > 1 else None
    if left is not None:
        biases = 0 if id(left) in seen else data.shape[-1 if op.attributes.get("transA") else -2]
        size = _once(left, seen)
    if "unknown" in (data.dtype, kernel.dtype) or _open(data, kernel, op.outputs[0]) or not kernel.shape:
        return OPEN, Cost(0, size + biases)
    return None, Cost(product.macs(op, data, kernel, product.axis), size + biases)


def _recurrent(
    op: Op, places: tuple[tuple[int, ...], tuple[int, ...]], makers: dict[int, Op], seen: set[int]
) -> tuple[str | None, Cost]:
    """Every step of every row meets the kernels; the directions are in the kernels."""
    kernels, biases = (
        [_stored(op.inputs[place], makers) for place in some if place < len(op.inputs)] for some in places
    )
    stored = sum(_once(one, seen) for one in (*kernels, *biases))
    data = op.inputs[0]
    if data is None or not any(kernels):
        return ": its weights are not stored", Cost(0, stored)
    if "unknown" in data.dtype or _open(data):
        return OPEN, Cost(0, stored)
    return None, Cost(math.prod(data.shape[:-1]) * sum(one.size for one in kernels if one is not None), stored)


def _einsum(op: Op, makers: dict[int, Op], seen: set[int]) -> tuple[str | None, Cost]:
    """Of two factors: the product of the sizes of all letters."""
    terms = str(op.attributes.get("equation", "")).replace(" ", "").partition("->")[0].split(",")
    factors = [tensor for tensor in op.inputs if tensor is not None]
    stored = sum(_once(_stored(tensor, makers), seen) for tensor in factors)
    if len(terms) != 2 or len(factors) != 2 or any("." in term for term in terms):
        return "", Cost(0, stored)
    if _open(*factors):
        return OPEN, Cost(0, stored)
    sizes = {letter: size for term, one in zip(terms, factors, strict=True) for letter, size in zip(term, one.shape)}
    return None, Cost(math.prod(sizes.values()), stored)


def _linear(op: Op) -> tuple[str | None, Cost]:
    names = ("scale", "offset") if op.kind == "Scaler" else ("coefficients", "intercepts")
    weights, biases = (int(op.attributes.get(name, 0)) for name in names)
    data = op.inputs[0]
    if data is None or not data.shape or data.shape[0] < 0:
        return OPEN, Cost(0, weights + biases)
    rows = data.shape[0] if len(data.shape) > 1 else 1
    return None, Cost(0 if op.kind == "Scaler" else rows * weights, weights + biases)


def _vectors(op: Op, makers: dict[int, Op], seen: set[int]) -> int:
    """Parameters of an operation that scales or shifts by channel, unless it folds into a product before it; of a
    table, its size."""
    stored = [_stored(tensor, makers) for tensor in op.inputs]
    if op.kind == "BatchNormalization" and len(op.outputs[0].shape) > 1 and not _open(op.outputs[0]):
        return 2 * op.outputs[0].shape[1]
    if op.kind in _TABLES:
        table = stored[0]
        weights = table is not None and len(table.shape) > 1 and (table.dtype.startswith("float") or table.scales)
        return _once(table, seen) if weights else 0
    constants = [tensor for tensor in stored if tensor is not None and tensor.size > 1]
    data = [tensor for tensor, constant in zip(op.inputs, stored, strict=True) if constant is None]
    if op.kind in _AFFINE and len(data) == 1 and _after_product(data[0], makers):
        return 0
    return sum(tensor.size for tensor in constants)


def _after_product(tensor: Tensor | None, makers: dict[int, Op]) -> bool:
    op = None if tensor is None else makers.get(id(tensor))
    if op is None or op.kind in PRODUCTS:
        return op is not None
    data = [one for one in op.inputs if op.kind in _MOVES | _AFFINE and _stored(one, makers) is None]
    return len(data) == 1 and _after_product(data[0], makers)
