"""The lint: whether a board can run a file, read from the file itself.

A converter gives no error when it falls back to float, when it picks a newer version of an operation than the board
has, or when it quantises in a way that an old interpreter reads wrongly. The lint does: each finding names the rule,
the operation, the tensor and the cure, and any finding refuses the export. What no model may do, wherever it comes
from, is held by ``edge_runtime.backends.model_lint``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgeveil.devices.profiles import OnnxLimits, Profile, TfliteLimits
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs.graph import Graph, Op, Tensor


@dataclass(frozen=True)
class Finding:
    """A part of a file that a board cannot run, or would run wrongly."""

    rule: str
    problem: str
    cure: str
    op: Op | None = None
    tensor: Tensor | None = None  # the operation's first output where it is left out

    def text(self) -> str:
        """One line, for a terminal."""
        outputs = self.op.outputs[:1] if self.op else ()
        tensors = outputs if self.tensor is None else (self.tensor,)
        where = [f"operation {self.op.name}"] if self.op else []
        where += [f"tensor {tensor.name!r}" for tensor in tensors]
        return f"{self.rule}: {', '.join(where)}: {self.problem}. Cure: {self.cure}."


def lint(graph: Graph, precision: str, profile: Profile | None = None) -> list[Finding]:
    """The findings about an artefact of that precision (``"int8"``), for every board and then for that one."""
    findings = _fixed_sizes(graph)
    if graph.format == "tflite":
        findings += _one_scale_per_dense(graph)
    if precision == "int8":
        findings += _no_float_in_tflite(graph) if graph.format == "tflite" else _no_float_in_onnx(graph)
    if profile is None or graph.format == "numpy":
        return findings
    limits = profile.limits(f"{graph.format}-{precision}")
    if isinstance(limits, TfliteLimits):
        findings += _tflite_limits(graph, limits, profile.name)
    if isinstance(limits, OnnxLimits):
        findings += _onnx_limits(graph, limits, profile.name)
    return findings


def refuse(failures: Sequence[tuple[str, str, str | None, list[Finding]]]) -> None:
    """Raise ``BadInput`` with all findings, if there are any: (artefact, model, board or None, findings)."""
    lines = []
    for artefact, model, board, findings in failures:
        if findings:
            where = f" for {board}" if board else ""
            lines.append(f"{artefact} of {model!r} does not pass the lint{where}:")
            lines += [f"  {finding.text()}" for finding in findings]
    if lines:
        raise BadInput("\n".join([*lines, "Nothing was exported."]))


_CURES = {
    "TILE": "resize through tf.raw_ops.ResizeNearestNeighbor(half_pixel_centers=False), not UpSampling2D('nearest')",
    "TRANSPOSE_CONV": "put no BatchNormalization with ReLU after Conv2DTranspose; resize and convolve",
    "RESIZE_NEAREST_NEIGHBOR": "resize through tf.raw_ops.ResizeNearestNeighbor(half_pixel_centers=False)",
    "DEPTH_TO_SPACE": "resize and convolve in place of depth_to_space",
    "LEAKY_RELU": "use ReLU or ReLU6",
    "HARD_SWISH": "use ReLU, ReLU6, or x * sigmoid(x)",
    "GELU": "use ReLU or ReLU6",
    "ELU": "use ReLU or ReLU6",
    "Elu": "use ReLU or ReLU6",
    "Erf": "use ReLU or ReLU6 in place of GELU",
    "SQUARE": "use BatchNormalization, which folds, in place of group, instance or layer normalisation",
    "RSQRT": "use BatchNormalization, which folds, in place of group, instance or layer normalisation",
}


def _cure(op: Op) -> str:
    return _CURES.get(op.kind, "use another operation: docs/reference/boards.md says what is safe everywhere")


def _fixed_sizes(graph: Graph) -> list[Finding]:
    users, makers = graph.users(), graph.makers()
    found = []
    for tensor in graph.tensors():
        if -1 in tensor.shape:
            op = makers.get(id(tensor)) or next(iter(users.get(id(tensor), [])), None)
            problem = f"a size of the shape {list(tensor.shape)} is left open"
            cure = "give every size of the model's input, and reshape to fixed sizes only"
            found.append(Finding("dynamic-dimension", problem, cure, op, tensor))
    return found


def _one_scale_per_dense(graph: Graph) -> list[Finding]:
    found = []
    for op in graph.ops:
        if op.kind == "FULLY_CONNECTED" and op.inputs[1] is not None and len(op.inputs[1].scales) > 1:
            problem = f"{len(op.inputs[1].scales)} scales, where interpreters before 2.14 read the first for all"
            cure = "convert with per-channel quantisation of Dense layers switched off"
            found.append(Finding("one-scale-per-dense", problem, cure, op, op.inputs[1]))
    return found


def _no_float_in_tflite(graph: Graph) -> list[Finding]:
    found, named = [], set()
    for op in graph.ops:
        for tensor in (*op.inputs, *op.outputs):
            if tensor is not None and "float" in tensor.dtype and op.name not in named:
                named.add(op.name)
                problem = f"{tensor.dtype} inside an int8 artefact: the converter has no int8 for {op.kind}"
                if op.kind in ("QUANTIZE", "DEQUANTIZE"):
                    problem = f"{tensor.dtype} inside an int8 artefact, at the edge of an operation without int8"
                found.append(Finding("no-float-island", problem, _cure(op), op, tensor))
    for name, tensor in (*graph.inputs.items(), *graph.outputs.items()):
        if tensor.dtype != "int8" or len(tensor.scales) != 1:
            problem = f"{name!r} is {tensor.dtype}, not int8 with one scale"
            found.append(Finding("int8-ends", problem, "ask the converter for int8 in and out", tensor=tensor))
    return found


def _no_float_in_onnx(graph: Graph) -> list[Finding]:
    """QDQ: every product reads values that were int8, and every result is quantised again."""
    makers, found = graph.makers(), []
    for op in graph.ops:
        if op.kind not in ("Conv", "ConvTranspose", "MatMul", "Gemm"):
            continue
        for tensor in op.inputs[:2]:
            maker = makers.get(id(tensor))
            if maker is None or maker.kind != "DequantizeLinear":
                problem = f"{op.kind} reads float32: it was not quantised"
                cure = "quantise it statically, with calibration rows that reach it"
                found.append(Finding("no-float-island", problem, cure, op, tensor))
    return found


def _tflite_limits(graph: Graph, limits: TfliteLimits, board: str) -> list[Finding]:
    found = []
    for op in graph.ops if limits.ops is not None else ():
        most = (limits.ops or {}).get(op.kind)
        if most is None:
            found.append(Finding("allowed-op", f"{op.kind} is not on the list of {board}", _cure(op), op))
        elif op.version > most:
            problem = f"{op.kind} is of version {op.version}, and {board} reads up to {most}"
            found.append(Finding("op-version", problem, _cure(op), op))
    needs = graph.min_runtime_version
    if limits.min_runtime_version and needs and _version(needs) > _version(limits.min_runtime_version):
        problem = f"the file asks for a runtime of {needs}, and {board} has that of {limits.min_runtime_version}"
        found.append(Finding("min-runtime-version", problem, "replace the operations that are new"))
    return found


def _onnx_limits(graph: Graph, limits: OnnxLimits, board: str) -> list[Finding]:
    found = []
    for what, has, most in (("opset", graph.opset, limits.opset), ("IR version", graph.ir, limits.ir)):
        if has > most:
            problem = f"{what} {has}, and {board} reads up to {most}"
            found.append(Finding("onnx-version", problem, f"convert with opset {limits.opset}"))
    for op in graph.ops:
        if limits.ops is not None and op.kind not in limits.ops:
            found.append(Finding("allowed-op", f"{op.kind} is not on the list of {board}", _cure(op), op))
    return found


def _version(text: str) -> tuple[int, ...]:
    """The first two numbers: 2.5.0 is not newer than 2.5."""
    return tuple(int(part) for part in text.split(".")[:2])
