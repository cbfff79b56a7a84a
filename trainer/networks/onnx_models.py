"""An ONNX classifier as a Keras model: each node becomes the operations of ATen that ``torch_models`` converts.

The file is checked as any that is given (``own.graph_of``), weights and sizes are folded by ONNX's own reference, and
what comes out is compared with ONNX Runtime on random samples. PyTorch is not needed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.trainer.graphs.pt2 import MOST_BYTES, Node, Program, Ref
from edgeveil.trainer.networks.own import graph_of
from edgeveil.trainer.networks.torch_models import MOST_VALUES, Conversion, Value, converted, first_line

GIVE = "Give it as .keras, or of PyTorch as .pt2"
OPEN = 7  # samples for which sizes of an open batch are computed
# What is computed once, from weights and sizes alone.
ELEMENTWISE = {"Add", "Sub", "Mul", "Div", "Neg", "Sqrt", "Reciprocal", "Pow", "Floor", "Equal", "Where", "Cast", "Abs"}
SHAPES = {"Identity", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Flatten", "Slice", "Constant"}
FOLDED = {*ELEMENTWISE, *SHAPES, "Concat", "Gather", "ConstantOfShape"}
# Operations that are one of ATen: of one value, and of two.
SAME = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "HardSwish": "hardswish", "Identity": "identity"}
SAME |= {name: name.lower() for name in ("Exp", "Sqrt", "Abs", "Neg", "Log", "Erf", "Softplus", "Mish", "Floor", "Sin")}
SAME |= {name: name.lower() for name in ("Cos", "Reciprocal", "Sign", "Round")}
OF_TWO = {name: name.lower() for name in ("Add", "Sub", "Mul", "Div")} | {"Max": "maximum", "Min": "minimum"}
REDUCED = {"ReduceMean": "mean", "ReduceSum": "sum", "ReduceMax": "amax", "ReduceMin": "amin"}
GLOBAL = {"GlobalAveragePool": "adaptive_avg_pool", "GlobalMaxPool": "adaptive_max_pool"}


@dataclass(frozen=True)
class OnnxNode(Node):
    """A node of ONNX, or an operation of ATen that is made for one. ``kind`` is its operation in the file."""

    kind: str = ""

    @property
    def where(self) -> str:
        """The node, for messages."""
        return f"{self.kind} of the node {self.module!r}"


def of_file(path: Path, shapes: Sequence[tuple[int, ...]], layout: str | None = None) -> Any:
    """A .onnx file as a Keras model for inputs of ``shapes``, channels last, without the batch. Raises ``BadInput``.

    Where its channels lie is found as of a .pt2.
    """
    try:
        if (size := path.stat().st_size) > MOST_BYTES:
            raise BadInput(f"{path.name} has {size >> 20} MiB; at most {MOST_BYTES >> 20} are read.")
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"A model was expected at {path}: {reason(error)}.") from None
    graph = graph_of(path, data, "be taken", "logits")
    for end in (*graph.inputs.values(), *graph.outputs.values()):
        if end.dtype != "float32":
            raise BadInput(f"{path.name}: float32 was expected, and {end.name} is {end.dtype}. Export it with float32.")
    try:
        program = _program(data)
    except (ValueError, TypeError, MemoryError) as error:
        raise BadInput(f"{path.name} cannot be read: {first_line(error)}. Export it again.") from None
    ((name, own),) = graph.inputs.items()
    program.inputs.append(name)
    program.shapes[name] = tuple(size if size > 0 else None for size in own.shape)
    walk = functools.partial(OnnxConversion, data, graph.opset)
    return converted(program, path.name, shapes, layout, walk)


def _program(data: bytes) -> Program:
    """The nodes and weights of a file that was found whole."""
    import onnx

    def value(one: Any) -> Any:
        got = onnx.helper.get_attribute_value(one)
        got = onnx.numpy_helper.to_array(got) if isinstance(got, onnx.TensorProto) else got
        return got.decode() if isinstance(got, bytes) else got

    graph = onnx.load_from_string(data).graph
    weights = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    program = Program([], graph.output[0].name, [], weights, set(), {})
    for number, one in enumerate(graph.node):
        inputs = [Ref(name) if name else None for name in one.input]
        args = {"": inputs, **{each.name: value(each) for each in one.attribute}}
        label = one.name or f"{one.op_type}-{number}"
        program.nodes.append(OnnxNode(one.op_type, "", args, tuple(one.output), label, one.op_type))
        if one.op_type == "Constant" and isinstance(array := args.get("value"), np.ndarray):
            weights[one.output[0]] = array
    fixed = {name for one in program.nodes if one.op in ("Sub", "Div") for ref in one.args[""] if (name := ref.name)}
    program.trained |= {name for name, one in weights.items() if one.dtype == np.float32 and one.size > 1} - fixed
    return program


class OnnxConversion(Conversion):
    """A walk over the nodes of an ONNX file: each is folded, or made of operations of ATen."""

    original = "ONNX Runtime"
    cure = GIVE
    open_batch = "export it for an open batch"

    def __init__(self, data: bytes, opset: int, program: Program, name: str, sample: Any) -> None:
        super().__init__(program, name, sample)
        self.data, self.opset, self.folded = data, opset, 0
        self.batch = program.shapes[program.inputs[0]][0] or OPEN
        self.at: OnnxNode

    def convert(self, node: Node) -> None:
        """Add the results of one node."""
        self.node = self.at = node = _of_onnx(node)
        if node.outputs[0] in self.values:  # a weight that is written as a node
            return
        for ref in node.args[""]:
            if ref is not None and ref.name not in self.values:
                raise self.refuse(f"it takes {ref.name!r}, which none of the nodes that are converted gives. {GIVE}")
        if node.op == "Shape" and isinstance(node_value := self.input(0), Value):
            sizes = [self.batch if one is None else one for one in node_value.shape]
            within = slice(node.args.get("start", 0), node.args.get("end"))
            self.values[node.outputs[0]] = np.array(sizes[within], np.int64)
        elif node.op in FOLDED and not any(isinstance(one, Value) for one in self.inputs()):
            self._fold()
        elif node.op in MADE and any(isinstance(one, Value) for one in self.inputs()):
            wide = [one for one in self.inputs() if isinstance(one, np.ndarray) and one.dtype == np.float16]
            if wide:
                raise self.refuse("float32 was expected, and its weights are float16. Export it with float32")
            try:
                made = MADE[node.op](self)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise self.refuse(f"it cannot be converted: {first_line(error)}. {GIVE}") from None
            for output, ref in zip(node.outputs, made if isinstance(made, list) else [made], strict=False):
                self.values[output] = self.values[ref.name]
        else:
            raise self.refuse(f"it has no counterpart in Keras here. {GIVE}")

    def results(self, samples: dict[str, np.ndarray]) -> dict[str, Any]:
        """Every value of the file, by ONNX Runtime."""
        names = [self.program.inputs[0]] + [one for node in self.program.nodes for one in node.outputs]
        names = [one for one in names[1:] if isinstance(self.values.get(one), Value)]
        try:
            return dict(zip(names, self._session(tuple(names)).run(names, samples), strict=True))
        except Exception as error:  # ONNX Runtime raises errors of its own kinds
            count = len(next(iter(samples.values())))
            raise BadInput(
                f"{self.name} does not run in ONNX Runtime on {count} samples: {first_line(error)}. Export it for an "
                "open batch."
            ) from None

    @functools.cache  # noqa: B019  of one conversion, which ends with it
    def _session(self, names: tuple[str, ...]) -> Any:
        import onnx
        import onnxruntime

        proto = onnx.load_from_string(self.data)
        ends = {one.name for one in proto.graph.output}
        proto.graph.output.extend(onnx.ValueInfoProto(name=one) for one in names if one not in ends)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])

    # What nodes are made with.

    def inputs(self) -> list[Any]:
        """What the node takes: values, arrays, and None for what is left out."""
        return [None if ref is None else self.values[ref.name] for ref in self.at.args[""]]

    def input(self, number: int) -> Any:
        """One of them."""
        return self.inputs()[number] if number < len(self.at.args[""]) else None

    def ref(self, number: int) -> Ref | None:
        """Its name; None where it is left out."""
        return self.at.args[""][number] if self.input(number) is not None else None

    def get(self, key: str, default: Any = None) -> Any:
        """An attribute of the node."""
        return self.at.args.get(key, default)

    def sample_at(self, number: int = 0) -> Value:
        """An input that was expected to be computed from the sample."""
        if not isinstance(one := self.input(number), Value):
            raise self.refuse(f"its input {number + 1} was expected to be computed from the sample. {GIVE}")
        return one

    def numbers(self, number: int, key: str) -> Any:
        """An input, or in older files an attribute, that is a list of numbers or one; None where it is left out."""
        one = self.input(number)
        if isinstance(one, Value):
            raise self.refuse(f"its {key} was expected to be fixed, and is computed from the sample. {GIVE}")
        return self.get(key) if one is None else one.tolist()

    def weight(self, number: int, how: str, change: Callable[[np.ndarray], np.ndarray]) -> Ref:
        """An input that is weights, changed as ``how`` names it; trained where they are."""
        if not isinstance(one := self.input(number), np.ndarray):
            raise self.refuse(f"its input {number + 1} was expected to be weights. {GIVE}")
        of = self.at.args[""][number].name
        self.values.setdefault(name := f"{of} {how}", np.ascontiguousarray(change(one)))
        self.trained |= {name} if of in self.trained else set()
        return Ref(name)

    def emit(self, op: str, shape: Sequence[int | None] = (), count: int = 1, /, **args: Any) -> Any:
        """The name of what an operation of ATen gives, or the names. ``shape`` is what a reshaped value has."""
        names = tuple(f"{self.at.outputs[0]} by {len(self.values) + one}" for one in range(count))
        self.program.shapes[names[0]] = tuple(shape)
        super().convert(OnnxNode(op, "", args, names, self.at.module, self.at.op))
        return [Ref(one) for one in names] if count > 1 else Ref(names[0])

    def _fold(self) -> None:
        import onnx
        from onnx.reference import ReferenceEvaluator

        arrays = [one for one in self.inputs() if one is not None]
        counts = [one.size for one in arrays]
        if self.at.op == "ConstantOfShape":
            counts = [math.prod(arrays[0].tolist())]
        elif self.at.op == "Gather":
            counts = [math.prod(counts)]
        elif self.at.op in ELEMENTWISE:
            counts = [math.prod(np.broadcast_shapes(*(one.shape for one in arrays)))]
        self.folded += sum(counts)
        if self.folded > MOST_VALUES:
            raise self.refuse(f"more than {MOST_VALUES} values are computed of weights. {GIVE}")
        refs = [ref.name if ref else "" for ref in self.at.args[""]]
        attributes = {key: one for key, one in self.at.args.items() if key}
        for key, one in attributes.items():
            attributes[key] = onnx.numpy_helper.from_array(one) if isinstance(one, np.ndarray) else one
        node = onnx.helper.make_node(self.at.op, refs, list(self.at.outputs), **attributes)
        try:
            inputs = [onnx.helper.make_tensor_value_info(one, 1, None) for one in dict.fromkeys(refs) if one]
            outputs = [onnx.helper.make_tensor_value_info(one, 1, None) for one in self.at.outputs]
            graph = onnx.helper.make_graph([node], "one", inputs, outputs)
            model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", self.opset)])
            found = ReferenceEvaluator(model).run(None, {one: self.values[one] for one in refs if one})
        except Exception as error:
            raise self.refuse(f"it cannot be computed: {first_line(error)}. {GIVE}") from None
        self.values.update(zip(self.at.outputs, map(np.asarray, found), strict=True))
        if self.trained.intersection(refs):
            self.trained.update(self.at.outputs)


def _of_onnx(node: Node) -> OnnxNode:
    assert isinstance(node, OnnxNode)  # noqa: S101
    return node


# Each operation: the name of what it gives.

Made = Ref | list[Ref]
MADE: dict[str, Callable[[OnnxConversion], Any]] = {}


def makes(*names: str) -> Callable[[Any], Any]:
    """Registers how nodes of these operations are made."""

    def register(function: Any) -> Any:
        MADE.update(dict.fromkeys(names, function))
        return function

    return register


@makes(*SAME, "Dropout", "Cast")
def _same(c: OnnxConversion) -> Made:
    if c.at.op == "Cast" and c.get("to") != 1:
        raise c.refuse("float32 throughout was expected, and it turns values into another kind of numbers")
    return c.emit(SAME.get(c.at.op, "identity"), self=c.ref(0))


@makes("LeakyRelu", "Elu", "Selu", "Gelu", "HardSigmoid", "PRelu")
def _activation(c: OnnxConversion) -> Made:
    if c.at.op == "PRelu":
        slopes = c.weight(1, "flat", np.ravel)
        if (shape := c.input(1).shape) not in ((c.input(1).size, *[1] * (len(shape) - 1)), (1,)):
            raise c.refuse(f"one slope, or one for each channel, was expected. {GIVE}")
        return c.emit("prelu", self=c.ref(0), weight=slopes)
    if c.at.op == "HardSigmoid":
        scaled = c.emit("mul", self=c.ref(0), other=c.get("alpha", 0.2))
        return c.emit("clamp", self=c.emit("add", self=scaled, other=c.get("beta", 0.5)), min=0.0, max=1.0)
    if c.at.op == "Selu" and len(c.at.args) > 1:
        raise c.refuse(f"alpha and gamma as they are by default were expected. {GIVE}")
    own = {"LeakyRelu": {"negative_slope": c.get("alpha", 0.01)}, "Elu": {"alpha": c.get("alpha", 1.0)}}
    own |= {"Gelu": {"approximate": c.get("approximate", "none")}}
    return c.emit({"LeakyRelu": "leaky_relu"}.get(c.at.op, c.at.op.lower()), self=c.ref(0), **own.get(c.at.op, {}))


@makes("Clip")
def _clip(c: OnnxConversion) -> Made:
    low, high = (
        None if one is None else float(np.asarray(one).item()) for one in (c.numbers(1, "min"), c.numbers(2, "max"))
    )
    return c.emit("clamp", self=c.ref(0), min=low, max=high)


@makes("Softmax", "LogSoftmax")
def _softmax(c: OnnxConversion) -> Made:
    rank, axis = len(c.sample_at().axes), c.get("axis", -1 if c.opset >= 13 else 1)
    if c.opset < 13 and axis % rank != rank - 1:  # all axes from that on, as one
        raise c.refuse(f"it was expected along the last axis. {GIVE}")
    return c.emit("softmax" if c.at.op == "Softmax" else "log_softmax", self=c.ref(0), dim=axis)


@makes(*OF_TWO, "Pow")
def _of_two(c: OnnxConversion) -> Made:
    if c.at.op == "Pow":
        return c.emit("pow", self=c.ref(0), exponent=float(np.asarray(c.numbers(1, "exponent")).item()))
    made, *others = c.at.args[""]
    for one in others:
        made = c.emit(OF_TWO[c.at.op], self=made, other=one)
    return made


# Convolutions, dense layers and norms.


def _sides(c: OnnxConversion, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """What is added before and after each axis of space, for windows of ``sizes``."""
    rank, auto = len(sizes), c.get("auto_pad", "NOTSET")
    if auto == "NOTSET":
        pads = c.get("pads", [0] * 2 * rank)
        return list(zip(pads[:rank], pads[rank:], strict=True))
    if auto == "VALID":
        return [(0, 0)] * rank
    sides = []
    steps, spread = c.get("strides", [1] * rank), c.get("dilations", [1] * rank)
    for has, size, step, by in zip(c.sample_at().shape[2:], sizes, steps, spread, strict=True):
        whole = max(0, (-(-has // step) - 1) * step + by * (size - 1) + 1 - has)  # type: ignore[operator]
        less, more = whole // 2, whole - whole // 2
        sides.append((less, more) if auto == "SAME_UPPER" else (more, less))
    return sides


@makes("Conv")
def _conv(c: OnnxConversion) -> Made:
    kernel, rank = c.input(1), len(c.sample_at().axes) - 2
    if not isinstance(kernel, np.ndarray):
        raise c.refuse(f"its weights were expected to be fixed, and are computed from the sample. {GIVE}")
    sides, sample = _sides(c, kernel.shape[2:]), c.ref(0)
    if any(before != after for before, after in sides):
        sample = c.emit("pad", self=sample, pad=[one for side in sides[::-1] for one in side])
        sides = [(0, 0)] * rank
    own = {"stride": c.get("strides", [1] * rank), "dilation": c.get("dilations", [1] * rank)}
    own |= {"padding": [one for one, _ in sides], "groups": c.get("group", 1)}
    return c.emit("convolution", input=sample, weight=c.ref(1), bias=c.ref(2), **own)


@makes("MaxPool", "AveragePool")
def _pool(c: OnnxConversion) -> Made:
    sizes = c.get("kernel_shape")
    own: dict[str, Any] = {"kernel_size": sizes, "stride": c.get("strides", [1] * len(sizes))}
    own |= {"dilation": c.get("dilations", [1] * len(sizes)), "padding": _sides(c, sizes)}
    own["ceil_mode"] = bool(c.get("ceil_mode", 0)) and c.get("auto_pad", "NOTSET") == "NOTSET"
    if c.at.op == "MaxPool":
        return c.emit(f"max_pool{len(sizes)}d", self=c.ref(0), **own)
    counts = bool(c.get("count_include_pad", 0))
    return c.emit(f"avg_pool{len(sizes)}d", self=c.ref(0), count_include_pad=counts, **own)


@makes(*GLOBAL)
def _global(c: OnnxConversion) -> Made:
    return c.emit(f"{GLOBAL[c.at.op]}{len(c.sample_at().axes) - 2}d", self=c.ref(0), output_size=1)


@makes("Gemm")
def _gemm(c: OnnxConversion) -> Made:
    c.sample_at()
    alpha, beta = np.float32(c.get("alpha", 1.0)), np.float32(c.get("beta", 1.0))
    if c.get("transA", 0) or isinstance(c.input(2), Value):
        raise c.refuse(f"a sample that is not turned, and a bias of weights, were expected. {GIVE}")
    into = c.weight(1, f"{alpha} {c.get('transB', 0)}", lambda one: alpha * (one.T if c.get("transB", 0) else one))
    if c.ref(2) is None:
        return c.emit("mm", self=c.ref(0), mat2=into)
    gives = c.input(1).shape[0 if c.get("transB", 0) else 1]
    bias = c.weight(2, f"{beta} {gives}", lambda one: beta * np.broadcast_to(one.reshape(-1), (gives,)))
    return c.emit("addmm", self=bias, mat1=c.ref(0), mat2=into)


@makes("MatMul")
def _matmul(c: OnnxConversion) -> Made:
    if isinstance(weights := c.input(1), np.ndarray) and weights.ndim == 2:
        return c.emit("mm", self=c.ref(0), mat2=c.ref(1))
    return c.emit("matmul", self=c.ref(0), other=c.ref(1))


@makes("BatchNormalization", "InstanceNormalization", "LayerNormalization")
def _norm(c: OnnxConversion) -> Made:
    own = {"input": c.ref(0), "weight": c.ref(1), "bias": c.ref(2), "eps": c.get("epsilon", 1e-5)}
    if c.at.op == "InstanceNormalization":
        return c.emit("instance_norm", **own)
    if c.at.op == "LayerNormalization":
        rank = len(c.sample_at().axes)
        return c.emit("layer_norm", normalized_shape=c.sample_at().shape[c.get("axis", -1) % rank :], **own)
    momentum = 1 - c.get("momentum", 0.9)
    return c.emit("batch_norm", running_mean=c.ref(3), running_var=c.ref(4), momentum=momentum, **own)


# Axes and shapes.


@makes(*REDUCED)
def _reduced(c: OnnxConversion) -> Made:
    axes = c.numbers(1, "axes")
    if not axes and c.get("noop_with_empty_axes", 0):
        return c.emit("identity", self=c.ref(0))
    return c.emit(REDUCED[c.at.op], self=c.ref(0), dim=axes, keepdim=bool(c.get("keepdims", 1)))


@makes("Concat")
def _concat(c: OnnxConversion) -> Made:
    return c.emit("cat", tensors=c.at.args[""], dim=c.get("axis"))


@makes("Reshape", "Flatten")
def _reshape(c: OnnxConversion) -> Made:
    has = [c.batch if one is None else one for one in c.sample_at().shape]
    if c.at.op == "Flatten":
        axis = c.get("axis", 1) % (len(has) + 1)
        wanted = [math.prod(has[:axis]), math.prod(has[axis:])]
    else:
        wanted = list(c.numbers(1, "shape"))
        if not c.get("allowzero", 0):
            wanted = [has[at] if one == 0 else one for at, one in enumerate(wanted)]
        rest = math.prod(one for one in wanted if one != -1)
        wanted = [math.prod(has) // max(1, rest) if one == -1 else one for one in wanted]
    if not wanted or wanted[0] != c.batch or c.sample_at().shape[0] is not None or math.prod(wanted) != math.prod(has):
        raise c.refuse(f"its sizes {wanted} merge the batch with others: export it for an open batch")
    return c.emit("reshape", [None, *wanted[1:]], self=c.ref(0))


@makes("Squeeze", "Unsqueeze")
def _squeeze(c: OnnxConversion) -> Made:
    axes, made = c.numbers(1, "axes"), c.ref(0)
    if c.at.op == "Squeeze":
        return c.emit("squeeze", self=made, dim=axes)
    rank = len(c.sample_at().axes) + len(axes)
    for axis in sorted(one % rank for one in axes):
        made = c.emit("unsqueeze", self=made, dim=axis)
    return made or []


@makes("Transpose")
def _transpose(c: OnnxConversion) -> Made:
    return c.emit("permute", self=c.ref(0), dims=c.get("perm", list(range(len(c.sample_at().axes)))[::-1]))


@makes("Slice")
def _slice(c: OnnxConversion) -> Made:
    starts, ends = c.numbers(1, "starts"), c.numbers(2, "ends")
    axes, steps = c.numbers(3, "axes") or list(range(len(starts))), c.numbers(4, "steps") or [1] * len(starts)
    made = c.ref(0)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        made = c.emit("slice", self=made, dim=axis, start=start, end=end, step=step)
    return made or []


@makes("Split")
def _split(c: OnnxConversion) -> Made:
    axis, count = c.get("axis", 0), len(c.at.outputs)
    sizes = c.numbers(1, "split") or -(-(c.sample_at().shape[axis] or 0) // count)
    return c.emit("split", (), count, self=c.ref(0), dim=axis, split_size=sizes)


@makes("Gather")
def _gather(c: OnnxConversion) -> Made:
    c.sample_at()
    if not isinstance(index := c.numbers(1, "indices"), int):
        raise c.refuse(f"one index was expected. {GIVE}")
    return c.emit("select", self=c.ref(0), dim=c.get("axis", 0), index=index)


@makes("Pad")
def _pad(c: OnnxConversion) -> Made:
    pads, axes, rank = c.numbers(1, "pads"), c.numbers(3, "axes"), len(c.sample_at().axes)
    sides, mode = [[0, 0] for _ in range(rank)], c.get("mode", "constant")
    for at, axis in enumerate(axes or range(rank)):
        sides[axis] = [pads[at], pads[at + len(pads) // 2]]
    pad, value = [one for side in sides[::-1] for one in side], c.numbers(2, "value")
    return c.emit("pad", self=c.ref(0), pad=pad, mode="replicate" if mode == "edge" else mode, value=value)
