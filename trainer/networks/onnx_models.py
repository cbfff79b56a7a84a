"""An ONNX classifier as a Keras model: each node becomes the operations of ATen that ``torch_models`` converts.

The file is checked as any that is given (``own.graph_of``), what follows from weights and sizes is computed by ONNX's
reference, and the model is compared with ONNX Runtime on random samples. PyTorch is not needed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs.macs import Graph
from edgeveil.trainer.graphs.pt2 import MOST_BYTES, Node, Program, Ref
from edgeveil.trainer.networks.own import graph_of
from edgeveil.trainer.networks.torch_models import MOST_VALUES, Conversion, Value, converted, first_line

GIVE = "Give it as .keras, or of PyTorch as .pt2"
OPEN = 7  # samples for which sizes of an open batch are computed
# What is computed once, from weights and sizes alone.
FOLDED = {"Add", "Sub", "Mul", "Div", "Neg", "Sqrt", "Reciprocal", "Pow", "Floor", "Equal", "Where", "Cast", "Identity"}
FOLDED |= {"Reshape", "Squeeze", "Unsqueeze", "Transpose", "Flatten", "Slice", "Constant", "Concat", "Gather", "Shape"}
# Operations by their names in ATen: of one value, of two, and over axes.
SAME = {name: name.lower() for name in ("Relu", "Sigmoid", "Tanh", "HardSwish", "Identity", "Softplus", "Mish")}
SAME |= {name: name.lower() for name in ("Exp", "Sqrt", "Abs", "Neg", "Log", "Erf", "Reciprocal")}
SAME |= {"Dropout": "identity", "Cast": "identity"}
OF_TWO = {name: name.lower() for name in ("Add", "Sub", "Mul", "Div")} | {"Max": "maximum", "Min": "minimum"}
REDUCED = {"ReduceMean": "mean", "ReduceSum": "sum", "ReduceMax": "amax", "ReduceMin": "amin"}
GLOBAL = {"GlobalAveragePool": "adaptive_avg_pool", "GlobalMaxPool": "adaptive_max_pool"}


def of_file(path: Path, shapes: Sequence[tuple[int, ...]], layout: str | None = None) -> Any:
    """A .onnx file as a Keras model, as ``torch_models.of_file`` makes one of a .pt2. Raises ``BadInput``."""
    import onnx

    if (size := path.stat().st_size) > MOST_BYTES:
        raise BadInput(f"{path.name} has {size >> 20} MiB; at most {MOST_BYTES >> 20} are read. Give a smaller model.")
    data = path.read_bytes()
    graph = graph_of(path, data, "be taken", "logits")
    for end in (*graph.inputs.values(), *graph.outputs.values()):
        if end.dtype != "float32":
            raise BadInput(f"{path.name}: float32 was expected, and {end.name} is {end.dtype}. Export it with float32.")
    proto = onnx.load_from_string(data)
    try:
        program = _program(proto.graph)
    except (LookupError, ValueError, TypeError, MemoryError) as error:
        raise BadInput(f"{path.name} cannot be read: {first_line(error)}. Export it again.") from None
    ((name, own),) = graph.inputs.items()
    program.inputs.append(name)
    program.shapes[name] = tuple(size if size > 0 else None for size in own.shape)
    return converted(program, path.name, shapes, layout, functools.partial(OnnxConversion, proto, graph))


def _program(graph: Any) -> Program:
    """The nodes and weights of a graph that was found whole."""
    import onnx

    weights = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    program = Program([], graph.output[0].name, [], weights, set(), {})
    for number, one in enumerate(graph.node):
        args = {each.name: onnx.helper.get_attribute_value(each) for each in one.attribute}
        args = {key: each.decode() if isinstance(each, bytes) else each for key, each in args.items()}
        if one.op_type == "Constant" and "value" in args:
            weights[one.output[0]] = onnx.numpy_helper.to_array(args["value"])
        args[""] = [Ref(name) if name else None for name in one.input]
        program.nodes.append(Node(one.op_type, "", args, (*one.output,), one.name or f"{one.op_type}-{number}"))
    fixed = {name for one in graph.node if one.op_type in ("Sub", "Div") for name in one.input}  # as of a range
    program.trained |= {name for name, one in weights.items() if one.dtype == np.float32 and one.size > 1} - fixed
    return program


class OnnxConversion(Conversion):
    """A walk over the nodes of an ONNX file: each is computed, or made of operations of ATen."""

    original = "ONNX Runtime"
    cure = GIVE
    open_batch = "export it for an open batch"

    def __init__(self, proto: Any, graph: Graph, program: Program, name: str, sample: Any) -> None:
        super().__init__(program, name, sample)
        self.proto, self.opset, self.folded = proto, graph.opset, 0
        self.sizes = {one.name: one.shape for op in graph.ops for one in op.outputs}
        self.written = {name: one for one in proto.graph.node for name in one.output}
        self.batch = program.shapes[program.inputs[0]][0] or OPEN
        self.at: Node
        self.refs: list[Any]  # what the node takes, by name, and those values or arrays; None for what is left out
        self.given: list[Any]

    def convert(self, node: Node) -> None:
        """Add the results of one node."""
        self.node = self.at = node
        taken = node.args[""]
        if others := [one.name for one in taken if one is not None and one.name not in self.values]:
            raise self.refuse(f"it takes {others[0]!r}, which nothing that is converted gives. {GIVE}")
        self.refs = [*taken, *[None] * 6]
        self.given = [None if one is None else self.values[one.name] for one in self.refs]
        of_sample = any(isinstance(one, Value) for one in self.given)
        try:
            if node.op == "Shape" and of_sample:
                sizes = np.array([one or self.batch for one in self.given[0].shape], np.int64)
                self.values[node.outputs[0]] = sizes[self.get("start", 0) : self.get("end")]
            elif node.op in FOLDED and not of_sample:
                self._fold({one.name: self.values[one.name] for one in taken if one is not None})
            elif node.op in MADE and of_sample:
                self.values[node.outputs[0]] = self.values[MADE[node.op](self).name]
            else:
                raise self.refuse(f"it has no counterpart in Keras here. {GIVE}")
        except BadInput:
            raise
        except Exception as error:
            raise self.refuse(f"it cannot be converted: {first_line(error)}. {GIVE}") from None

    def _fold(self, arrays: dict[str, Any]) -> None:
        """Compute the node."""
        import onnx
        from onnx.reference import ReferenceEvaluator

        most = sum(one.size for one in arrays.values())  # of an axis whose size is not known
        self.folded += math.prod(most if size < 0 else size for size in self.sizes[self.at.outputs[0]])
        if self.folded > MOST_VALUES:
            raise self.refuse(f"more than {MOST_VALUES} values are computed of weights. {GIVE}")
        one = onnx.helper.make_graph([self.written[self.at.outputs[0]]], "one", [], [])
        found = ReferenceEvaluator(one, opsets={"": self.opset}).run(self.at.outputs, arrays)
        self.values.update(zip(self.at.outputs, map(np.asarray, found), strict=True))
        self.trained.update(self.at.outputs if self.trained.intersection(arrays) else ())

    def results(self, samples: dict[str, np.ndarray]) -> dict[str, Any]:
        """Every value of the file, by ONNX Runtime."""
        try:
            session, names = self._session
            return dict(zip(names, session.run(names, samples), strict=True))
        except Exception as error:  # ONNX Runtime raises errors of its own kinds
            how = f"{self.name} does not run in ONNX Runtime on {len(next(iter(samples.values())))} samples"
            raise BadInput(f"{how}: {first_line(error)}. Export it for an open batch.") from None

    @functools.cached_property
    def _session(self) -> tuple[Any, list[str]]:
        import onnx
        import onnxruntime

        names = [one for node in self.program.nodes for one in node.outputs if isinstance(self.values.get(one), Value)]
        self.proto.graph.output.extend(onnx.ValueInfoProto(name=one) for one in names if one != self.program.output)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        data = self.proto.SerializeToString()
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]), names

    def get(self, key: str, default: Any = None) -> Any:
        """An attribute of the node."""
        return self.at.args.get(key, default)

    def numbers(self, number: int, key: str) -> Any:
        """An input, or in older files an attribute, that is a list of numbers or one; None where it is left out."""
        one = self.given[number]
        return self.get(key) if one is None else one.item() if one.size == 1 and key in ONE else one.tolist()

    def weight(self, number: int, how: str, change: Callable[[np.ndarray], np.ndarray]) -> Ref:
        """An input that is weights, changed as ``how`` names it; trained where they are."""
        name = f"{self.refs[number].name} {how}"
        self.values.setdefault(name, np.ascontiguousarray(change(self.given[number])))
        self.trained |= {name} if self.refs[number].name in self.trained else set()
        return Ref(name)

    def emit(self, op: str, shape: Sequence[int | None] = (), /, **args: Any) -> Ref:
        """The name of what an operation of ATen gives. ``shape`` is what a reshaped value has."""
        name = f"{self.at.outputs[0]} by {len(self.values)}"
        self.program.shapes[name] = tuple(shape)
        super().convert(Node(op, "", args, (name,), self.at.module))
        return Ref(name)

    def of(self, op: str, /, **args: Any) -> Any:
        """The name of what an operation of ATen gives for the first input."""
        return self.emit(op, self=self.refs[0], **args)


# Each operation: the name of what it gives. What attributes change that are not read differs when compared.

ONE = ("min", "max", "exponent", "value", "indices")  # inputs that are one number
MADE: dict[str, Callable[[OnnxConversion], Ref]] = {
    "LeakyRelu": lambda c: c.of("leaky_relu", negative_slope=c.get("alpha", 0.01)),
    "Elu": lambda c: c.of("elu", alpha=c.get("alpha", 1.0)),
    "Gelu": lambda c: c.of("gelu", approximate=c.get("approximate", "none")),
    "Selu": lambda c: c.emit(
        "mul", self=c.of("elu", alpha=c.get("alpha", 1.67326319)), other=c.get("gamma", 1.05070102)
    ),
    "Clip": lambda c: c.of("clamp", min=c.numbers(1, "min"), max=c.numbers(2, "max")),
    "Pow": lambda c: c.of("pow", exponent=float(c.numbers(1, "exponent"))),
    "Softmax": lambda c: c.of("softmax", dim=c.get("axis", -1 if c.opset >= 13 else 1)),
    "LogSoftmax": lambda c: c.of("log_softmax", dim=c.get("axis", -1 if c.opset >= 13 else 1)),
    "Concat": lambda c: c.emit("cat", tensors=c.at.args[""], dim=c.get("axis")),
    "Transpose": lambda c: c.of("permute", dims=c.get("perm", [*range(len(c.given[0].axes))][::-1])),
    "Gather": lambda c: c.of("select", dim=c.get("axis", 0), index=int(c.numbers(1, "indices"))),
    "Squeeze": lambda c: c.of("squeeze", dim=c.numbers(1, "axes")),
    "HardSigmoid": lambda c: c.of("hardsigmoid"),
    "MatMul": lambda c: c.of("mm", mat2=c.refs[1]) if np.ndim(c.given[1]) == 2 else c.of("matmul", other=c.refs[1]),
    "BatchNormalization": lambda c: _norm(c, "batch_norm", running_mean=c.refs[3], running_var=c.refs[4]),
    "InstanceNormalization": lambda c: _norm(c, "instance_norm"),
    "LayerNormalization": lambda c: _norm(c, "layer_norm", normalized_shape=c.given[0].shape[c.get("axis", -1) :]),
}
MADE |= {kind: lambda c: c.of(SAME[c.at.op]) for kind in SAME}
MADE |= {kind: lambda c: c.of(f"{GLOBAL[c.at.op]}{len(c.given[0].axes) - 2}d", output_size=1) for kind in GLOBAL}
MADE |= {
    kind: lambda c: functools.reduce(lambda one, two: c.emit(OF_TWO[c.at.op], self=one, other=two), c.at.args[""])
    for kind in OF_TWO
}
MADE |= {
    kind: lambda c: c.of(REDUCED[c.at.op], dim=c.numbers(1, "axes"), keepdim=c.get("keepdims", 1) > 0)
    for kind in REDUCED
}


def _prelu(c: OnnxConversion) -> Ref:
    rank, shape = len(c.given[0].axes), c.given[1].shape
    if c.given[1].size > 1 and (*[1] * (rank - len(shape)), *shape)[2:] != (1,) * (rank - 2):
        raise c.refuse(f"one slope, or one for each channel, was expected. {GIVE}")
    return c.of("prelu", weight=c.weight(1, "flat", np.ravel))


# Convolutions, dense layers and norms.


def _windows(c: OnnxConversion, sizes: Sequence[int]) -> tuple[list[tuple[int, int]], dict[str, Any]]:
    """What is added before and after each axis of space for windows of ``sizes``; their steps."""
    rank, auto = len(sizes), c.get("auto_pad", "NOTSET")
    steps, spread = c.get("strides", [1] * rank), c.get("dilations", [1] * rank)
    pads = c.get("pads", [0] * 2 * rank) if auto == "NOTSET" else [0] * 2 * rank
    sides = list(zip(pads[:rank], pads[rank:], strict=True))
    if auto.startswith("SAME"):
        for at, (has, size, step, by) in enumerate(zip(c.given[0].shape[2:], sizes, steps, spread, strict=True)):
            whole = max(0, ((has or 1) - 1) // step * step + by * (size - 1) + 1 - (has or 1))
            sides[at] = (whole // 2, whole - whole // 2)[:: 1 if auto == "SAME_UPPER" else -1]
    return sides, {"stride": steps, "dilation": spread}


def _conv(c: OnnxConversion) -> Ref:
    sides, own = _windows(c, c.given[1].shape[2:])
    sample, padding = c.refs[0], [one for one, _ in sides]
    if any(before != after for before, after in sides):
        sample = c.emit("pad", self=sample, pad=[one for side in sides[::-1] for one in side])
        padding = [0] * len(sides)
    own |= {"padding": padding, "groups": c.get("group", 1)}
    return c.emit("convolution", input=sample, weight=c.refs[1], bias=c.refs[2], **own)


def _pool(c: OnnxConversion) -> Ref:
    sides, own = _windows(c, sizes := c.get("kernel_shape"))
    own |= {"kernel_size": sizes, "padding": sides, "count_include_pad": c.get("count_include_pad", 0)}
    return c.of(f"{'max' if c.at.op == 'MaxPool' else 'avg'}_pool{len(sizes)}d", ceil_mode=c.get("ceil_mode", 0), **own)


def _gemm(c: OnnxConversion) -> Ref:
    alpha, beta, turned = np.float32(c.get("alpha", 1.0)), np.float32(c.get("beta", 1.0)), c.get("transB", 0)
    into = c.weight(1, f"{alpha} {turned}", lambda one: alpha * (one.T if turned else one))
    if c.refs[2] is None:
        return c.of("mm", mat2=into)
    gives = c.given[1].shape[0 if turned else 1]
    bias = c.weight(2, f"{beta} {gives}", lambda one: beta * np.broadcast_to(one.reshape(-1), (gives,)))
    return c.emit("addmm", self=bias, mat1=c.refs[0], mat2=into)


def _norm(c: OnnxConversion, op: str, **own: Any) -> Ref:
    return c.emit(op, input=c.refs[0], weight=c.refs[1], bias=c.refs[2], eps=c.get("epsilon", 1e-5), **own)


# Axes and shapes.


def _reshape(c: OnnxConversion) -> Ref:
    has = [one or c.batch for one in c.given[0].shape]
    if c.at.op == "Flatten":
        axis = c.get("axis", 1) % (len(has) + 1)
        wanted = [math.prod(has[:axis]), math.prod(has[axis:])]
    else:
        wanted = [has[at] if one == 0 else one for at, one in enumerate(c.numbers(1, "shape"))]
        rest = math.prod(one for one in wanted if one != -1)
        wanted = [math.prod(has) // max(1, rest) if one == -1 else one for one in wanted]
    if wanted[:1] != [c.batch] or c.given[0].shape[0] is not None or math.prod(wanted) != math.prod(has):
        raise c.refuse(f"its sizes {wanted} merge the batch with others: export it for an open batch")
    return c.emit("reshape", [None, *wanted[1:]], self=c.refs[0])


def _unsqueeze(c: OnnxConversion) -> Ref:
    axes, made = c.numbers(1, "axes"), c.refs[0]
    for axis in sorted(one % (len(c.given[0].axes) + len(axes)) for one in axes):
        made = c.emit("unsqueeze", self=made, dim=axis)
    return made


def _slice(c: OnnxConversion) -> Ref:
    starts, ends, made = c.numbers(1, "starts"), c.numbers(2, "ends"), c.refs[0]
    axes, steps = c.numbers(3, "axes") or range(len(starts)), c.numbers(4, "steps") or [1] * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        made = c.emit("slice", self=made, dim=axis, start=start, end=end, step=step)
    return made


def _pad(c: OnnxConversion) -> Ref:
    pads, axes, mode = c.numbers(1, "pads"), c.numbers(3, "axes"), c.get("mode", "constant")
    sides = [(0, 0)] * len(c.given[0].axes)
    for at, axis in enumerate(axes or range(len(sides))):
        sides[axis] = (pads[at], pads[at + len(pads) // 2])
    how = {"mode": "replicate" if mode == "edge" else mode, "value": c.numbers(2, "value")}
    return c.of("pad", pad=[one for side in sides[::-1] for one in side], **how)


MADE |= {"Conv": _conv, "MaxPool": _pool, "AveragePool": _pool, "Gemm": _gemm, "Reshape": _reshape, "Flatten": _reshape}
MADE |= {"PRelu": _prelu, "Unsqueeze": _unsqueeze, "Slice": _slice, "Pad": _pad}
