"""A trained .onnx classifier as a Keras model: each operation against ONNX Runtime, and what each mistake gets."""

import sys
from pathlib import Path

import keras
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.networks import own

SHAPE = (9, 8, 4)  # of samples, channels last
RNG = np.random.default_rng(0)


def array(*shape):
    return RNG.normal(size=shape).astype(np.float32) / 2


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs, [output], name=f"n-{output}", **attributes)


def write(path, nodes, weights=None, *, takes=("n", 4, 9, 8), gives=None, opset=17, **more):
    """A file of nodes from x to y; ``weights`` are its initializers, and what is left out of ``gives`` follows."""
    weights = {name: np.asarray(one) for name, one in (weights or {}).items()}
    stored = [onnx.numpy_helper.from_array(one, name) for name, one in weights.items()]
    inputs = [helper.make_tensor_value_info(one, TensorProto.FLOAT, takes) for one in more.pop("inputs", ["x"])]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, gives)
    graph = helper.make_graph(nodes, "g", inputs, [output], stored)
    versions = [helper.make_opsetid("", opset), *(helper.make_opsetid(one, 1) for one in more.pop("domains", []))]
    model = helper.make_model(graph, opset_imports=versions, ir_version=9, **more)
    model = model if gives else onnx.shape_inference.infer_shapes(model, data_prop=True)
    path.write_bytes(model.SerializeToString())
    return path


def both(path, shape=SHAPE, first=True):
    """What ONNX Runtime gives for random samples, what the Keras model does, and that."""
    u = np.random.default_rng(1).random((5, *shape), np.float32) * 2 - 1
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = np.moveaxis(u, -1, 1) if first else u
    size = session.get_inputs()[0].shape[0]
    parts = [given[at : at + size] for at in range(0, 5, size)] if isinstance(size, int) else [given]
    expected = np.concatenate([session.run(None, {session.get_inputs()[0].name: one})[0] for one in parts])
    model, _ = own.read_given(path, shape)
    found = np.asarray(model(u))
    return expected, np.moveaxis(found, -1, 1) if first and expected.ndim == len(shape) + 1 else found, model


def one(op, *, opset=17, **attributes):
    return [node(op, ["x"], "y", **attributes)], {}, opset


def conv(weights, **attributes):
    return [node("Conv", ["x", "w", "b"], "y", **attributes)], {"w": weights, "b": array(len(weights))}, 17


INT = np.int64
STAT = {"s": array(4), "o": array(4), "m": array(4), "v": np.abs(array(4)) + 0.5}
# Nodes, initializers and opset; from (n, 4, 9, 8).
MADE = {
    "conv, sides that differ": conv(array(6, 4, 3, 3), strides=[2, 1], pads=[0, 1, 1, 1]),
    "conv, dilated": conv(array(6, 4, 3, 3), dilations=[2, 2], pads=[2, 2, 2, 2]),
    "conv, groups": conv(array(6, 2, 3, 3), group=2),
    "conv, depthwise": conv(array(8, 1, 3, 3), group=4, auto_pad="SAME_LOWER"),
    "conv, same": conv(array(6, 4, 4, 3), strides=[2, 2], auto_pad="SAME_UPPER"),
    "conv, valid": conv(array(6, 4, 2, 2), auto_pad="VALID"),
    "leaky relu": one("LeakyRelu", alpha=0.2),
    "elu": one("Elu", alpha=0.7),
    "hard sigmoid": one("HardSigmoid", alpha=1 / 6),
    "gelu": one("Gelu", approximate="tanh", opset=20),
    "prelu": ([node("PRelu", ["x", "w"], "y")], {"w": array(4, 1, 1)}, 17),
    "clip": ([node("Clip", ["x", "", "high"], "y")], {"high": np.float32(0.3)}, 17),
    "clip of old": one("Clip", opset=10, min=-0.2, max=0.4),
    "softmax": ([node("Softmax", ["x"], "y", axis=1)], {}, 17),
    "log softmax": ([node("LogSoftmax", ["x"], "y")], {}, 17),
    "max pool": one("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 1]),
    "max pool, same": one("MaxPool", kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER"),
    "average, sides counted": one("AveragePool", kernel_shape=[2, 2], pads=[1, 0, 0, 1], count_include_pad=1),
    "average, sides not": one("AveragePool", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 1, 0]),
    "global": one("GlobalAveragePool"),
    "global max": one("GlobalMaxPool"),
    "mean of old": one("ReduceMean", axes=[2, 3], keepdims=0),
    "mean": ([node("ReduceMean", ["x", "a"], "y", keepdims=1)], {"a": np.array([-1, -2], INT)}, 18),
    "largest": one("ReduceMax", axes=[1]),
    "batch norm": ([node("BatchNormalization", ["x", *"somv"], "y", epsilon=0.01)], STAT, 17),
    "instance norm": ([node("InstanceNormalization", ["x", *"so"], "y")], STAT, 17),
    "layer norm": ([node("LayerNormalization", ["x", "w"], "y")], {"w": array(8)}, 17),
    "add": ([node("Add", ["x", "w"], "y")], {"w": array(4, 1, 8)}, 17),
    "from a number": ([node("Sub", ["w", "x"], "y")], {"w": np.float32(1)}, 17),
    "over channels": ([node("Div", ["x", "w"], "y")], {"w": np.abs(array(1, 4, 1, 1)) + 1}, 17),
    "power": ([node("Pow", ["x", "w"], "y")], {"w": np.float32(2)}, 17),
    "largest of three": ([node("Neg", ["x"], "h"), node("Max", ["x", "h", "w"], "y")], {"w": np.float32(0.2)}, 17),
    "branches": ([node("Tanh", ["x"], "h"), node("Concat", ["x", "h"], "i", axis=1), node("Relu", ["i"], "y")], {}, 17),
    "pad": (
        [node("Pad", ["x", "p", "w"], "y")],
        {"p": np.array([0, 0, 1, 0, 0, 0, 2, 3], INT), "w": np.float32(0.5)},
        17,
    ),
    "pad, mirrored": one("Pad", opset=10, mode="reflect", pads=[0, 0, 1, 1, 0, 0, 2, 0]),
    "pad, edge, by axes": (
        [node("Pad", ["x", "p", "", "a"], "y", mode="edge")],
        {"p": np.array([1, 0], INT), "a": np.array([-1], INT)},
        18,
    ),
    "slice": (
        [node("Slice", ["x", "s", "e", "a", "t"], "y")],
        {"s": np.array([1, -6], INT), "e": np.array([9, 99], INT), "a": np.array([2, 3], INT), "t": np.array([3, 1], INT)},
        17,
    ),
    "of old, cut": one("Slice", opset=9, starts=[0, 2], ends=[3, 5], axes=[1, 3]),
    "one": ([node("Gather", ["x", "i"], "y", axis=2)], {"i": np.array(-1, INT)}, 17),
    "turned": one("Transpose", perm=[0, 2, 3, 1]),
    "flat": (
        [node("Flatten", ["x"], "h"), node("Gemm", ["h", "w", "b"], "y", transB=1, alpha=0.5, beta=2.0)],
        {"w": array(3, 288), "b": array(1, 3)},
        17,
    ),
    "gemm of columns": (
        [node("Reshape", ["x", "s"], "h"), node("Gemm", ["h", "w"], "y")],
        {"s": np.array([0, -1], INT), "w": array(288, 3)},
        17,
    ),
    "matmul and add, of channels last": (
        [
            node("Transpose", ["x"], "h", perm=[0, 2, 3, 1]),
            node("Reshape", ["h", "s"], "i"),
            *(node("MatMul", ["i", "w"], "j"), node("Add", ["j", "b"], "y")),
        ],
        {"s": np.array([-1, 288], INT), "w": array(288, 3), "b": array(3)},
        17,
    ),
    "sizes that are computed": (
        [
            *(node("Shape", ["x"], "s"), node("Gather", ["s", "zero"], "n"), node("Unsqueeze", ["n", "axis"], "m")),
            *(node("Concat", ["m", "rest"], "t", axis=0), node("Reshape", ["x", "t"], "y")),
        ],
        {"zero": np.array(0, INT), "axis": np.array([0], INT), "rest": np.array([-1], INT)},
        17,
    ),
    "axes of one": (
        [
            node("GlobalAveragePool", ["x"], "h"),
            *(node("Squeeze", ["h", "two"], "i"), node("Unsqueeze", ["i", "end"], "j"), node("Dropout", ["j"], "y")),
        ],
        {"two": np.array([2, 3], INT), "end": np.array([-1], INT)},
        17,
    ),
    "weights that are computed": (
        [node("Transpose", ["w"], "t"), node("MatMul", ["x", "t"], "y")],
        {"w": array(3, 8)},
        17,
    ),
    "weights in a node": (
        [
            helper.make_node("Constant", [], ["w"], value=onnx.numpy_helper.from_array(array(8, 5))),
            node("MatMul", ["x", "w"], "y"),
        ],
        {},
        17,
    ),
}
MADE |= {op: one(op) for op in ("Relu", "Sigmoid", "Tanh", "HardSwish", "Selu", "Softplus", "Identity", "Abs", "Erf")}


@pytest.mark.parametrize("name", MADE)
def test_each_operation_is_what_onnx_runtime_gives(name, tmp_path):
    nodes, weights, opset = MADE[name]
    file = write(tmp_path / "m.onnx", nodes, weights, opset=opset)
    expected, found, _ = both(file)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 1e-5
