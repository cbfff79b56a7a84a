"""ONNX models that a signing key may bring and no board should suffer from, made with onnx and protocol buffers alone.

Each takes an image (1, 8, 8, 1) and noise (1, 16), and says to give an image; all bytes are the same every time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

IMAGE, NOISE, OUTPUT = "image", "noise", "output"
_FLOAT, _INT64, _BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
_SHAPE = [1, 8, 8, 1]


def _constant(name: str, value: Any, kind: str = "float32") -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, kind), name)


def _model(
    nodes: list[onnx.NodeProto],
    constants: list[onnx.TensorProto],
    depends_on: str | None = None,
    functions: list[onnx.FunctionProto] | None = None,
    domains: tuple[str, ...] = (),
    sparse: list[onnx.SparseTensorProto] | None = None,
) -> bytes:
    """The output is 0.5 everywhere; ``depends_on`` is a value of one number that goes into it."""
    last = [helper.make_node("Mul", [IMAGE, "zero"], ["none"])]
    if depends_on is not None:
        last.append(helper.make_node("Add", ["none", depends_on], ["more"]))
    last.append(helper.make_node("Add", [last[-1].output[0], "half"], [OUTPUT]))
    graph = helper.make_graph(
        [*nodes, *last],
        "main",
        [helper.make_tensor_value_info(IMAGE, _FLOAT, _SHAPE), helper.make_tensor_value_info(NOISE, _FLOAT, [1, 16])],
        [helper.make_tensor_value_info(OUTPUT, _FLOAT, _SHAPE)],
        [*constants, _constant("zero", [0]), _constant("half", [0.5])],
        sparse_initializer=sparse,
    )
    opsets = [helper.make_opsetid("", 13), *(helper.make_opsetid(name, 1) for name in domains)]
    made = helper.make_model(graph, opset_imports=opsets, functions=functions or [])
    made.ir_version = 8
    return made.SerializeToString(deterministic=True)


def good() -> bytes:
    return _model([], [])


def _elsewhere(tensor: onnx.TensorProto, location: str) -> onnx.TensorProto:
    """The tensor with its data in another file."""
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", "4")):
        tensor.external_data.add(key=key, value=value)
    return tensor


def data_in_the_systems_files() -> bytes:
    return _model([], [_elsewhere(_constant("other", [0]), "/etc/passwd")], "other")


def data_in_a_folder_above() -> bytes:
    return _model([], [_elsewhere(_constant("other", [0]), "../" * 12 + "etc/passwd")], "other")


def data_in_a_file_beside() -> bytes:
    return _model([], [_elsewhere(_constant("other", [0]), "state.json")], "other")


def data_elsewhere_of_a_constant_node() -> bytes:
    value = _elsewhere(_constant("value", [0]), "/etc/passwd")
    return _model([helper.make_node("Constant", [], ["other"], value=value)], [], "other")


def data_elsewhere_in_a_function() -> bytes:
    value = _elsewhere(_constant("value", [0]), "/etc/passwd")
    node = helper.make_node("Constant", [], ["made"], value=value)
    made = helper.make_function("own", "Read", [], ["made"], [node], [helper.make_opsetid("", 13)])
    call = helper.make_node("Read", [], ["other"], domain="own")
    return _model([call], [], "other", [made], ("own",))


def _filled(shape: list[int]) -> bytes:
    """A constant of this shape that is written down as one number."""
    nodes = [
        helper.make_node("ConstantOfShape", ["size"], ["large"], value=_constant("value", [0])),
        helper.make_node("ReduceSum", ["large"], ["sum"], keepdims=0),
    ]
    return _model(nodes, [_constant("size", shape, "int64")], "sum")


def giant_constant() -> bytes:
    return _filled([2**20, 2**20])


def constant_beyond_the_limit() -> bytes:
    """2 GiB, which many a machine has."""
    return _filled([2**15, 2**14])


def constant_whose_size_overflows() -> bytes:
    return _filled([2**31, 2**31, 2**31])


def negative_size() -> bytes:
    return _filled([-(2**40)])


def size_known_at_run_time() -> bytes:
    """The size of a constant comes from the picture, so that no memory is asked for before one runs."""
    nodes = [
        helper.make_node("ReduceSum", [IMAGE], ["total"], keepdims=0),
        helper.make_node("Cast", ["total"], ["count"], to=_INT64),
        helper.make_node("Add", ["count", "least"], ["size"]),
        helper.make_node("Expand", ["one", "size"], ["large"]),
        helper.make_node("ReduceSum", ["large"], ["sum"], keepdims=0),
    ]
    return _model(nodes, [_constant("least", [2**20, 2**20], "int64"), _constant("one", [1])], "sum")


def giant_weights_that_are_not_there() -> bytes:
    large = TensorProto(name="other", data_type=_FLOAT, dims=[2**20, 2**20], raw_data=bytes(8))
    return _model([helper.make_node("ReduceSum", ["other"], ["sum"], keepdims=0)], [large], "sum")


def giant_sparse_weights() -> bytes:
    sparse = onnx.SparseTensorProto(dims=[2**20, 2**20])
    sparse.values.CopyFrom(_constant("other", [1]))
    sparse.indices.CopyFrom(_constant("at", [5], "int64"))
    return _model([helper.make_node("ReduceSum", ["other"], ["sum"], keepdims=0)], [], "sum", sparse=[sparse])


def _loop(begin: str, constants: list[onnx.TensorProto], before: list[onnx.NodeProto]) -> bytes:
    """A loop that goes on as long as ``begin`` says so, which is never asked again."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("Add", ["value", "value"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("turn", _INT64, []),
            helper.make_tensor_value_info("go", _BOOL, []),
            helper.make_tensor_value_info("value", _FLOAT, [1]),
        ],
        [helper.make_tensor_value_info("go_on", _BOOL, []), helper.make_tensor_value_info("next", _FLOAT, [1])],
    )
    loop = helper.make_node("Loop", ["", begin, "start"], ["end"], body=body)
    return _model([*before, loop], [*constants, _constant("start", [0])], "end")


def endless_loop() -> bytes:
    return _loop("always", [_constant("always", True, "bool")], [])


def endless_loop_of_one_picture() -> bytes:
    """It ends for every picture but those whose first eight samples are all the highest."""
    nodes = [
        helper.make_node("Reshape", [IMAGE, "flat"], ["row"]),
        helper.make_node("Slice", ["row", "first", "ninth"], ["samples"]),
        helper.make_node("ReduceMin", ["samples"], ["least"], keepdims=0),
        helper.make_node("Greater", ["least", "nearly"], ["sign"]),
    ]
    numbers = [_constant(name, [n], "int64") for name, n in (("flat", 64), ("first", 0), ("ninth", 8))]
    return _loop("sign", [*numbers, _constant("nearly", 0.999)], nodes)


def function_that_calls_itself() -> bytes:
    node = helper.make_node("Again", ["x"], ["y"], domain="own")
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]
    made = helper.make_function("own", "Again", ["x"], ["y"], [node], opsets)
    call = helper.make_node("Again", ["half"], ["other"], domain="own")
    return _model([call], [], "other", [made], ("own",))


def functions_that_call_each_other() -> bytes:
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]
    made = [
        helper.make_function("own", one, ["x"], ["y"], [helper.make_node(other, ["x"], ["y"], domain="own")], opsets)
        for one, other in (("A", "B"), ("B", "A"))
    ]
    return _model([helper.make_node("A", ["half"], ["other"], domain="own")], [], "other", made, ("own",))


def graphs_in_graphs(depth: int = 25) -> bytes:
    """A branch in a branch, so many deep."""
    outputs = [helper.make_tensor_value_info("made", _FLOAT, [1])]
    branch = flat = helper.make_graph([helper.make_node("Identity", ["half"], ["made"])], "flat", [], outputs)
    for _ in range(depth):
        node = helper.make_node("If", ["always"], ["made"], then_branch=branch, else_branch=flat)
        branch = helper.make_graph([node], "outer", [], outputs)
    (node,) = branch.node
    node.output[0] = "other"
    return _model([node], [_constant("always", True, "bool")], "other")


def operation_of_its_own() -> bytes:
    return _model([helper.make_node("HostileOperation", [IMAGE], ["other"], domain="own")], [], "other", None, ("own",))


def operation_that_runs_python() -> bytes:
    domain = "ai.onnx.contrib"
    return _model([helper.make_node("PyOp", [IMAGE], ["other"], domain=domain)], [], "other", None, (domain,))


def values_that_make_each_other() -> bytes:
    nodes = [helper.make_node("Add", ["b", "half"], ["a"]), helper.make_node("Add", ["a", "half"], ["b"])]
    return _model(nodes, [], "a")


def index_behind_the_end() -> bytes:
    nodes = [
        helper.make_node("Reshape", [IMAGE, "flat"], ["row"]),
        helper.make_node("Gather", ["row", "far"], ["other"]),
    ]
    return _model(nodes, [_constant("flat", [64], "int64"), _constant("far", [2**40], "int64")], "other")


def onnx_runtimes_own_format() -> bytes:
    """By its bytes alone, ONNX Runtime would read a flatbuffer."""
    return b"\x18\x00\x00\x00ORTM" + bytes(64)


def length_behind_the_end() -> bytes:
    data = good()
    at = data.index(b"main") - 1
    return data[:at] + b"\xff\xff\xff\xff\x07" + data[at + 1 :]


def half_a_file() -> bytes:
    data = good()
    return data[: len(data) // 2]
