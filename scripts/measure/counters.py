"""What others count in a model file: MACs by kind of product. Nothing of EdgeVeil is imported here.

Run by ``costs.py``; ``answer`` in .venvs/oracles, where onnx-tool is.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Shapes = Mapping[str, tuple[int, ...]]
FIRST = ("Conv", "ConvInteger", "FusedConv", "Gemm", "MatMul", "MatMulInteger")  # data and weights are inputs 0 and 1
KINDS = (*FIRST, "ConvTranspose", "QLinearConv", "QLinearMatMul", "LSTM", "GRU", "Einsum")


def sized(path: str, shapes: Shapes) -> Any:
    """An ONNX model whose inputs have these shapes."""
    import onnx

    proto = onnx.load(path)
    for one in proto.graph.input:
        for dim, size in zip(one.type.tensor_type.shape.dim, shapes.get(one.name, ()), strict=False):
            dim.dim_value = size
    return proto


def by_onnx_tool(path: str, shapes: Shapes) -> dict[str, int]:
    """onnx-tool's figures, less the additions of biases that it counts as well."""
    import numpy as np
    import onnx_tool
    from onnx.helper import tensor_dtype_to_np_dtype

    graph = onnx_tool.Model(path, {"verbose": False}).graph
    kinds = {one.name: one.type.tensor_type.elem_type for one in sized(path, {}).graph.input}
    graph.shape_infer({name: np.zeros(shape, tensor_dtype_to_np_dtype(kinds[name])) for name, shape in shapes.items()})
    graph.profile()
    by_kind: Counter[str] = Counter()
    for node in graph.nodemap.values():
        if node.op_type in KINDS:
            biases = (
                math.prod(node.outshape) if node.op_type.startswith(("Conv", "Gemm")) and len(node.input) == 3 else 0
            )
            by_kind[node.op_type] += int(node.macs[0]) - (0 if node.op_type == "ConvInteger" else biases)
    return by_kind


def by_inference(path: str, shapes: Shapes) -> dict[str, int]:
    """By the sizes that onnx's shape inference finds; the costlier branch of an If. Raises ``KeyError`` without one."""
    import onnx

    proto = onnx.shape_inference.infer_shapes(sized(path, shapes), data_prop=True)

    def counts(graph: Any, known: dict[str, list[int]]) -> Counter[str]:
        known = {**known, **{one.name: list(one.dims) for one in graph.initializer}}
        for one in (*graph.input, *graph.value_info, *graph.output):
            kind = one.type.tensor_type
            if kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim):
                known.setdefault(one.name, [dim.dim_value for dim in kind.shape.dim])
        by_kind: Counter[str] = Counter()
        for node in graph.node:
            if node.op_type == "Constant":
                known[node.output[0]] = next((list(a.t.dims) for a in node.attribute if a.name == "value"), [])
            elif node.op_type == "If":
                by_kind += max((counts(a.g, known) for a in node.attribute), key=lambda one: one.total())
            elif node.op_type in KINDS:
                by_kind[node.op_type] += product(node, known)
        return by_kind

    return counts(proto.graph, {})


def product(node: Any, known: Mapping[str, list[int]]) -> int:
    """The multiply-adds of one node by its definition."""
    flags = {a.name: a.i for a in node.attribute}
    if node.op_type in ("LSTM", "GRU"):
        return math.prod(known[node.input[0]][:2]) * sum(math.prod(known[name]) for name in node.input[1:3])
    at = 0 if node.op_type in (*FIRST, "ConvTranspose", "Einsum") else 2
    data, weights = known[node.input[0]], known[node.input[at + 1]]
    if node.op_type == "ConvTranspose":
        return math.prod(data) * math.prod(weights[1:])
    if node.op_type == "Einsum":
        terms = next(a.s.decode() for a in node.attribute if a.name == "equation").split("->")[0].split(",")
        return math.prod(
            {k: n for term, sizes in zip(terms, (data, weights)) for k, n in zip(term.strip(), sizes)}.values()
        )
    out = math.prod(known[node.output[0]])
    return out * (math.prod(weights[1:]) if "Conv" in node.op_type else data[0 if flags.get("transA") else -1])


def by_interpreter(path: str, shapes: Shapes) -> dict[str, int]:
    """Of a TFLite file: by the sizes that tensors have after a run. Raises ``RuntimeError`` for unknown operations."""
    from ai_edge_litert import interpreter as litert

    resolver = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    opened = litert.Interpreter(path, experimental_op_resolver_type=resolver)
    for one in opened.get_input_details():
        opened.resize_tensor_input(one["index"], shapes.get(one["name"], one["shape"]))
    opened.allocate_tensors()
    for one in opened.get_input_details():
        opened.set_tensor(one["index"], one["dtype"](0) + 0 * opened.get_tensor(one["index"]))
    opened.invoke()
    size = {one["index"]: [int(n) for n in one["shape"]] for one in opened.get_tensor_details()}
    by_kind: Counter[str] = Counter()
    for op in opened._get_ops_details():
        kind, (out, *_) = op["op_name"], op["outputs"]
        data, weights = (size.get(int(place), []) for place in (*op["inputs"], -1, -1)[:2])
        if kind in ("CONV_2D", "FULLY_CONNECTED"):
            by_kind[kind] += math.prod(size[out]) * math.prod(weights[1:])
        elif kind == "DEPTHWISE_CONV_2D":
            by_kind[kind] += math.prod(size[out]) * math.prod(weights[1:3])
        elif kind == "TRANSPOSE_CONV":
            by_kind[kind] += math.prod(size[int(op["inputs"][2])][:3]) * math.prod(weights)
        elif kind == "BATCH_MATMUL":
            by_kind[kind] += math.prod(size[out]) * data[-1]
    return by_kind


def answer(folder: Path) -> None:
    """Print the answer to ``question.json`` in ``folder``: of each ONNX file both figures, or why there is none."""
    answers = []
    for one in json.loads((folder / "question.json").read_text()):
        figures: dict[str, Any] = {}
        for name, count in (("onnx-tool", by_onnx_tool), ("inference", by_inference)):
            try:
                figures[name] = count(one["path"], one["shapes"])
            except Exception as error:  # any: it is other people's
                figures[name] = f"{type(error).__name__}: {str(error)[:160]}"
        answers.append(figures)
    (folder / "answer.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    answer(Path(sys.argv[1]))
