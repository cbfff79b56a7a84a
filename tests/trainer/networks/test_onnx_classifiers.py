"""A trained .onnx classifier as a Keras model: each operation against ONNX Runtime, and what each mistake gets."""

from pathlib import Path

import keras
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.networks import own
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.train import train
from tests.support.small_runs import small_recipe, write_npz

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
    output = helper.make_tensor_value_info("y", more.pop("kind", TensorProto.FLOAT), gives)
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
    "conv, depthwise": conv(array(8, 1, 2, 3), group=4, auto_pad="SAME_LOWER"),
    "conv, same": conv(array(6, 4, 4, 3), strides=[2, 2], auto_pad="SAME_UPPER"),
    "conv, valid": conv(array(6, 4, 2, 2), auto_pad="VALID"),
    "leaky relu": one("LeakyRelu", alpha=0.2),
    "elu": one("Elu", alpha=0.7),
    "hard sigmoid": one("HardSigmoid", alpha=1 / 6),
    "selu of its own": one("Selu", alpha=3.0, gamma=0.5),
    "gelu": one("Gelu", approximate="tanh", opset=20),
    "prelu": ([node("PRelu", ["x", "w"], "y")], {"w": array(4, 1, 1)}, 17),
    "prelu of one": ([node("PRelu", ["x", "w"], "y")], {"w": np.float32([0.3])}, 17),
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
        {
            "s": np.array([1, -6], INT),
            "e": np.array([9, 99], INT),
            "a": np.array([2, 3], INT),
            "t": np.array([3, 1], INT),
        },
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


@pytest.mark.parametrize("name", ["branches", "conv, same", "sizes that are computed"])
def test_one_batch_and_channels_last_are_taken_too(name, tmp_path):
    nodes, weights, opset = MADE[name]
    expected, found, _ = both(write(tmp_path / "one.onnx", nodes, weights, opset=opset, takes=(1, 4, 9, 8)))
    assert np.abs(found - expected).max() < 1e-5
    nodes = [node("Transpose", ["u"], "x", perm=[0, 3, 1, 2]), *nodes]
    file = write(tmp_path / "last.onnx", nodes, weights, opset=opset, takes=("n", None, None, 4), inputs=["u"])
    expected, found, _ = both(file, first=False)
    assert np.abs(found - expected).max() < 1e-5


def test_weights_stay_trainable_and_those_of_a_range_do_not(tmp_path):
    nodes = [
        *(node("Sub", ["x", "mean"], "h"), node("Div", ["h", "std"], "i"), node("Conv", ["i", "w", "b"], "j")),
        *(node("BatchNormalization", ["j", *"somv"], "k"), node("GlobalAveragePool", ["k"], "l")),
        *(node("Flatten", ["l"], "f"), node("MatMul", ["f", "last"], "g"), node("Add", ["g", "bias"], "y")),
    ]
    weights = {"mean": array(4, 1, 1), "std": np.abs(array(4, 1, 1)) + 1, "w": array(4, 4, 3, 3), "b": array(4), **STAT}
    weights |= {"last": array(4, 3), "bias": array(3)}
    expected, found, model = both(write(tmp_path / "m.onnx", nodes, weights))
    assert np.abs(found - expected).max() < 1e-5
    assert sum(np.prod(one.shape) for one in model.trainable_variables) == 4 * 4 * 9 + 4 + 2 * 4 + 4 * 3 + 3
    rng = np.random.default_rng(0)
    u = rng.random((256, *SHAPE), np.float32)
    y = np.arange(256) % 2
    u[..., 2] += y[:, None, None]
    model.compile(keras.optimizers.Adam(0.03), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    before = model.evaluate(u, y, verbose=0)
    model.fit(u, y, epochs=20, verbose=0)
    assert model.evaluate(u, y, verbose=0) < before / 2


@pytest.mark.parametrize("end", ["Softmax", "LogSoftmax"])
def test_a_softmax_at_the_end_is_taken_off(end, tmp_path):
    nodes = [node("Flatten", ["x"], "h"), node("MatMul", ["h", "w"], "g"), node(end, ["g"], "y")]
    file = write(tmp_path / "m.onnx", nodes, {"w": (w := array(288, 3))})
    model = own.checked(own.read_given(file, SHAPE)[0], "m.onnx", own.Spec(SHAPE, 3))
    u = np.random.default_rng(2).random((5, *SHAPE), np.float32)
    assert np.abs(np.asarray(model(u)) - np.moveaxis(u, -1, 1).reshape(5, -1) @ w).max() < 1e-4


# As the exporters write it.


def exported(batch, path):
    """A network of Keras with what such networks have, and the file that tf2onnx makes of it."""
    import tensorflow as tf
    import tf2onnx

    layers, x = keras.layers, keras.Input((12, 12, 3))
    h = layers.Rescaling(2.0, -1.0)(x)
    h = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(h)
    h = layers.BatchNormalization()(h)
    h = layers.SeparableConv2D(12, 3, padding="same", activation="elu")(h)
    h = layers.MaxPooling2D(3, 2, padding="same")(h)
    g = layers.Conv2D(12, 1, activation="leaky_relu")(h)
    h = layers.Concatenate()([layers.Add()([h, g]), g])
    h = layers.Dropout(0.2)(layers.AveragePooling2D(2, padding="same")(h))
    h = layers.Dense(9, activation="tanh")(layers.Flatten()(h))
    model = keras.Model(x, layers.Dense(4, activation="softmax")(h))
    rng = np.random.default_rng(0)
    model.set_weights([np.abs(rng.normal(size=one.shape)) * 0.3 - 0.1 * (one.ndim > 1) for one in model.get_weights()])
    call, spec = (
        tf.function(lambda u: model(u, training=False)),
        tf.TensorSpec((batch, 12, 12, 3), tf.float32, name="u"),
    )
    tf2onnx.convert.from_function(call, [spec], opset=17, output_path=str(path))
    return model


@pytest.mark.parametrize("batch", [None, 1])
def test_what_tf2onnx_writes_is_the_network_that_it_was(batch, tmp_path):
    model = exported(batch, tmp_path / "m.onnx")
    u = np.random.default_rng(1).random((5, 12, 12, 3), np.float32)
    found, _ = own.read_given(tmp_path / "m.onnx", (12, 12, 3))
    assert np.abs(np.asarray(found(u)) - np.asarray(model(u))).max() < 1e-5
    trained = [sum(np.prod(value.shape) for value in one.trainable_variables) for one in (found, model)]
    assert trained[0] == trained[1]


# What each mistake gets.

FLAT = [node("Flatten", ["x"], "h"), node("MatMul", ["h", "w"], "y")]
DENSE = {"w": array(288, 3)}
DOUBLED = [node("Concat", ["w" if k == 0 else f"w{k}"] * 2, f"w{k + 1}", axis=0) for k in range(26)]
BAD = {
    "an operation unknown": (
        {"nodes": [node("DepthToSpace", ["x"], "y", blocksize=2)]},
        r"m.onnx: DepthToSpace of the layer n-y: it has no counterpart in Keras here\. Give it as \.keras, or of PyT",
    ),
    "a node without a name": (
        {"nodes": [helper.make_node("LRN", ["x"], ["y"], size=3)]},
        r"m.onnx: LRN of the layer LRN-0: it has no counterpart",
    ),
    "a custom domain": (
        {"nodes": [node("Relu", ["x"], "y", domain="mine")], "domains": ["mine"], "gives": ("n", 3)},
        r"cannot be taken: Relu is of the domain mine, which is not ONNX's own",
    ),
    "it draws": ({"nodes": [node("RandomNormalLike", ["x"], "y")]}, "cannot be taken: RandomNormalLike draws from"),
    "two inputs": (
        {"nodes": [node("Add", ["x", "z"], "y")], "inputs": ["x", "z"]},
        r"one input and one output was expected; it has 2 and 1\. Export one from a sample to logits",
    ),
    "float64": (
        {"nodes": [node("Cast", ["x"], "h", to=11), node("Cast", ["h"], "y", to=1)]},
        "float32 was expected, and h is float64",
    ),
    "bytes": (
        {"nodes": [node("Cast", ["x"], "y", to=TensorProto.UINT8)], "kind": TensorProto.UINT8},
        "float32 was expected, and y is uint8. Export it with float32",
    ),
    "of other samples": (
        {"nodes": [*FLAT[:1], node("Relu", ["h"], "y")], "takes": ("n", 4, 9, 9)},
        r"it takes \[\(4, 9, 9\)\]",
    ),
    "other values": (
        {"nodes": [node("HardSigmoid", ["x"], "h", alpha=0.5), node("Relu", ["h"], "y")]},
        r"HardSigmoid of the layer n-h gives other values in Keras than in ONNX Runtime, by .* of the largest\. Give",
    ),
    "the batch is merged": (
        {"nodes": [node("Reshape", ["x", "s"], "y")], "weights": {"s": np.array([-1, 8], INT)}},
        r"Reshape of the layer n-y: its sizes \[252, 8\] merge the batch with others: export it for an open batch",
    ),
    "one sample is another's": (
        {"nodes": [node("ReduceMean", ["x"], "h", axes=[0]), node("Sub", ["x", "h"], "y")]},
        "it goes over the batch",
    ),
    "a batch of thousands": ({"nodes": FLAT, "weights": DENSE, "takes": (4096, 4, 9, 8)}, "a batch of at most 256"),
    "a padding of thousands": (
        {"nodes": [node("AveragePool", ["x"], "y", kernel_shape=[1, 1], pads=[9000, 0, 9000, 9000])]},
        "avg_pool2d of the layer n-y: its padding makes more than 67108864 values",
    ),
    "weights that grow": (
        {
            "nodes": [*DOUBLED, node("ReduceSum", ["x"], "h", axes=[1, 2, 3]), node("Add", ["h", "w26"], "y")],
            "opset": 11,
        },
        "more than 67108864 values are computed of weights",
    ),
    "slopes along another axis": (
        {"nodes": [node("PRelu", ["x", "w"], "y")], "weights": {"w": array(8)}},
        "PRelu of the layer n-y: one slope, or one for each channel, was expected",
    ),
    "weights that are computed": (
        {"nodes": [node("Tanh", ["x"], "h"), node("Conv", ["x", "h"], "y")]},
        r"of the layer n-y: its weight was expected to be a weight, and is computed from the sample",
    ),
}
BAD["weights that grow"][0]["weights"] = {"w": array(8, 1, 1, 1)}


@pytest.mark.parametrize("name", BAD)
def test_each_mistake_gets_one_sentence(name, tmp_path):
    made, says = BAD[name]
    nodes, weights = (made := dict(made)).pop("nodes"), made.pop("weights", {})
    file = write(tmp_path / "m.onnx", nodes, weights, **made)
    with pytest.raises(BadInput, match=says) as raised:
        own.read_given(file, SHAPE)
    assert "\n" not in str(raised.value)


def test_weights_elsewhere_and_files_that_are_not_whole_are_refused(tmp_path):
    file = write(tmp_path / "m.onnx", FLAT, DENSE)
    data = file.read_bytes()
    for part in (
        b"",
        data.replace(b"MatMul", b"Mat\xd9ul"),
        data[:1],
        data[: len(data) // 2],
        data[:-3],
        b"no model at all",
    ):
        file.write_bytes(part)
        with pytest.raises(BadInput, match=r"m.onnx cannot be taken"):
            own.read_given(file, SHAPE)
    onnx.save(onnx.load_from_string(data), file, save_as_external_data=True, size_threshold=0)
    with pytest.raises(
        BadInput, match=r"m.onnx cannot be taken: its weights are in another file; export it again, all"
    ):
        own.read_given(file, SHAPE)


def test_what_it_gives_is_checked_as_of_any_classifier(tmp_path):
    file = write(tmp_path / "m.onnx", FLAT, DENSE)
    with pytest.raises(BadInput, match=r"m.onnx: logits of 4 classes were expected, \(4,\); it gives \[\(3,\)\]"):
        own.checked(own.read_given(file, SHAPE)[0], "m.onnx", own.Spec(SHAPE, 4))
    file = write(tmp_path / "m.onnx", [*FLAT[:1], node("MatMul", ["h", "w"], "g"), node("Sigmoid", ["g"], "y")], DENSE)
    with pytest.raises(BadInput, match=r"m.onnx ends with a sigmoid, and logits were expected"):
        own.checked(own.read_given(file, SHAPE)[0], "m.onnx", own.Spec(SHAPE, 3))


# The whole way.


@pytest.mark.parametrize("kind", ["prgan", "label-only"])
def test_a_run_trains_to_its_end_against_it(kind, tmp_path):
    weights = np.zeros((6, 2), np.float32)
    weights[0] = -20, 20  # y moves feature 0
    nodes = [node("Gemm", ["x", "w", "b"], "g"), node("Softmax", ["g"], "y")]
    file = write(tmp_path / "dy.onnx", nodes, {"w": weights, "b": np.float32([10, -10])}, takes=("n", 6))
    classifiers = {"architecture": "table1-wifi", "learning_rate": 3e-3, "target": {"trained": str(file)}}
    run = train(small_recipe(write_npz(tmp_path), kind=kind, classifiers=classifiers), tmp_path / "run")
    assert run.facts["classifiers"]["target"]["validation_accuracy"] > 0.9
    assert run.facts["state"] == "finished"
    assert [Path(one.file).name for one in Run.open(run.folder).recipe.files] == ["dy.onnx"]
