"""Costs of anybody's model: by hand, however the same network is written, and what is not counted is named."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli.main import app
from edgeveil.trainer.graphs.cost import file_cost, model_file_cost

FLOAT = TensorProto.FLOAT
KERNEL = np.ones((4, 3, 3, 3), np.float32)
CONV = 8 * 8 * KERNEL.size  # of 8 x 8 places
WEIGHTS = KERNEL.size + 4  # and a bias for each channel


def value(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def conv(data="x", weights="w", output="y", domain="", kind="Conv"):
    return helper.make_node(kind, [data, weights], [output], kernel_shape=[3, 3], pads=[1] * 4, domain=domain)


def stored(array, name):
    return numpy_helper.from_array(array, name)


def open_end(name, rank=4):
    """A tensor of so many sizes, all of which follow from what makes it."""
    return value(name, [f"{name}{place}" for place in range(rank)])


def saved(path, nodes, inputs, outputs=None, stored=(KERNEL,), functions=()):
    kept = [numpy_helper.from_array(one, "w") if isinstance(one, np.ndarray) else one for one in stored]
    graph = helper.make_graph(nodes, "net", inputs, list(outputs or [open_end("y")]), kept)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("mine", 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=8)
    onnx.save(model, path)
    return path


def body(name, nodes, inputs=(), outputs=()):
    return helper.make_graph(nodes, name, list(inputs), list(outputs))


def constant(name, array):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array, name))


MATRIX = stored(np.ones((6, 2), np.float32), "m")
PICTURE = value("x", [1, 3, 8, 8])


def an_open_batch(path):
    return saved(path, [conv()], [value("x", ["n", 3, 8, 8])])


def no_batch_axis(path):
    nodes = [constant("at", np.array([0])), helper.make_node("Unsqueeze", ["x", "at"], ["one"]), conv("one")]
    return saved(path, nodes, [value("x", [3, 8, 8])])


def weights_that_are_turned(path):
    nodes = [helper.make_node("Transpose", ["v"], ["w"], perm=[3, 2, 0, 1]), conv()]
    return saved(path, nodes, [PICTURE], stored=[stored(KERNEL.transpose(2, 3, 1, 0).copy(), "v")])


def weights_that_are_joined(path):
    halves = [stored(KERNEL[:2], "a"), stored(KERNEL[2:], "b")]
    return saved(path, [helper.make_node("Concat", ["a", "b"], ["w"], axis=0), conv()], [PICTURE], stored=halves)


def sparse_weights(path):
    values = helper.make_tensor("w", FLOAT, [9], np.ones(9))
    places = helper.make_tensor("at", TensorProto.INT64, [9], np.arange(9))
    sparse = helper.make_sparse_tensor(values, places, KERNEL.shape)
    node = helper.make_node("Constant", [], ["w"], sparse_value=sparse)
    return saved(path, [node, conv()], [PICTURE], stored=())


def a_second_input_first(path):
    nodes = [helper.make_node("Identity", ["state"], ["kept"]), conv()]
    return saved(path, nodes, [value("state", [8, 2]), PICTURE], [open_end("y"), open_end("kept", 2)])


def the_same_weights_twice(path):
    nodes = [conv("x", output="a"), conv("z", output="b"), helper.make_node("Add", ["a", "b"], ["y"])]
    return saved(path, nodes, [PICTURE, value("z", [1, 3, 8, 8])])


def a_function(path):
    one = helper.make_function("mine", "Layer", ["x", "w"], ["y"], [conv()], [helper.make_opsetid("", 17)])
    return saved(path, [helper.make_node("Layer", ["x", "w"], ["y"], domain="mine")], [PICTURE], functions=[one])


def a_branch(path):
    then = body("then", [conv(output="t")], outputs=[open_end("t")])
    other = body("other", [constant("o", np.zeros((1, 4, 8, 8), np.float32))], outputs=[open_end("o")])
    node = helper.make_node("If", ["which"], ["y"], then_branch=then, else_branch=other)
    return saved(path, [node], [PICTURE, value("which", [], TensorProto.BOOL)])


def looped(path, *given, condition="", on=None, count=()):
    """A loop around a convolution; ``given`` makes its count and condition, or ``count`` is an input of that shape."""
    inner = [conv("x", output="out"), on or helper.make_node("Identity", ["go"], ["on"])]
    inputs = [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL)]
    ends = [value("on", [], TensorProto.BOOL), open_end("out")]
    node = helper.make_node("Loop", ["count", condition], ["y"], body=body("body", inner, inputs, ends))
    inputs = [PICTURE] if given else [PICTURE, value("count", count, TensorProto.INT64)]
    return saved(path, [*given, node], inputs, [open_end("y", 5)])


def a_scan(path, shape=(7, 6), **axes):
    inner = body("body", [helper.make_node("MatMul", ["row", "m"], ["out"])], [value("row", [6])], [open_end("out", 1)])
    node = helper.make_node("Scan", ["x"], ["y"], body=inner, num_scan_inputs=1, **axes)
    return saved(path, [node], [value("x", shape)], [open_end("y", 2)], stored=[MATRIX])


def rows_that_meet(path):
    """Each of six rows meets the others: they are no batch."""
    nodes = [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    return saved(path, nodes, [value("x", [6, 6])], [open_end("y", 2)], stored=())


def a_sparse_initialiser(path):
    values = helper.make_tensor("w", FLOAT, [9], np.ones(9))
    places = helper.make_tensor("at", TensorProto.INT64, [9], np.arange(9))
    saved(path, [conv()], [PICTURE], [value("y", [1, 4, 8, 8])], stored=())
    model = onnx.load(path)
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, KERNEL.shape))
    onnx.save(model, path)
    return path


def weights_made_in_the_old_way(path):
    """Before IR 4 each initialiser was an input as well, and what is dropped has no size."""
    nodes = [helper.make_node("ConstantOfShape", ["to"], ["w"]), conv(output="h")]
    nodes += [helper.make_node("Dropout", ["h"], ["y", "mask"])]
    saved(path, nodes, [PICTURE, value("to", [4], 7)], stored=[stored(np.array(KERNEL.shape), "to")])
    model = onnx.load(path)
    model.ir_version, model.opset_import[0].version = 3, 9
    onnx.save(model, path)
    return path


def another_domain(path):
    return saved(path, [conv(output="h"), helper.make_node("Secret", ["h"], ["y"], domain="mine")], [PICTURE])


def a_map(path):
    nodes = [
        helper.make_node(
            "LinearClassifier",
            ["x"],
            ["c", "p"],
            domain="ai.onnx.ml",
            classlabels_ints=[0, 1, 2],
            coefficients=[1.0] * 6,
            intercepts=[0.0] * 3,
        ),
        helper.make_node("ZipMap", ["p"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]),
    ]
    kind = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(FLOAT, []))
    ends = [helper.make_value_info("y", helper.make_sequence_type_proto(kind))]
    return saved(path, nodes, [value("x", ["n", 2])], ends, stored=())


def quantised(path):
    shape = {"x": (1, 3, 8, 8), "w": KERNEL.shape}
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    node = helper.make_node("QLinearConv", names, ["y"], kernel_shape=[3, 3], pads=[1] * 4)
    scales = [stored(np.float32(1), name) for name in ("xs", "ws", "ys")]
    zeros = [stored(np.uint8(0), name) for name in ("xz", "wz", "yz")]
    kept = [*scales, *zeros, KERNEL.astype(np.uint8)]
    end = value("y", ["n", 4, 8, 8], TensorProto.UINT8)
    return saved(path, [node], [value("x", shape["x"], TensorProto.UINT8)], [end], stored=kept)


def a_summation(path):
    node = helper.make_node("Einsum", ["x", "m"], ["y"], equation="bij,jk->bik")
    return saved(
        path, [node], [value("x", [1, 5, 6])], [open_end("y", 3)], stored=[stored(np.ones((6, 2), np.float32), "m")]
    )


def recurrent(path):
    arrays = {"w": np.ones((1, 16, 3), np.float32), "r": np.ones((1, 16, 4), np.float32)}
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4)
    return saved(path, [node], [value("x", [7, 1, 3])], stored=[stored(v, k) for k, v in arrays.items()])


def computed_sizes(path, layers=1):
    """A picture of open size that is flattened by its own computed size, as exporters write it."""
    names = [f"h{number}" for number in range(layers)]
    nodes = [
        *(conv(output=name) for name in names),
        helper.make_node("Sum", names, ["h"]),
        helper.make_node("GlobalAveragePool", ["h"], ["p"]),
        helper.make_node("Shape", ["p"], ["s"]),
        constant("first", np.array([0])),
        helper.make_node("Gather", ["s", "first"], ["rows"]),
        constant("rest", np.array([-1])),
        helper.make_node("Concat", ["rows", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["p", "to"], ["flat"]),
        helper.make_node("MatMul", ["flat", "m"], ["y"]),
    ]
    kept = [KERNEL, stored(np.ones((4, 5), np.float32), "m")]
    return saved(path, nodes, [value("x", ["n", 3, "height", "width"])], [open_end("y", 2)], stored=kept)


def net(*described, **more):
    """What writes such a model to a path."""
    return lambda path: saved(path, *described, **more)


NETS = {
    "weights_as_a_node": net([constant("w", KERNEL), conv()], [PICTURE], stored=()),
    "a_loop": lambda path: looped(path, constant("count", np.array(5))),
    "a_loop_that_was_counted_down": lambda path: looped(path, constant("count", np.array(-3))),
    "a_loop_that_does_not_begin": lambda path: looped(
        path, constant("count", np.array(5)), constant("c", np.array(False)), condition="c"
    ),
    "a_loop_that_ends_itself": lambda path: looped(
        path, helper.make_node("Constant", [], ["count"], value_int=5), on=constant("on", np.array(False))
    ),
    "a_computed_loop": lambda path: looped(path),
    "a_scan_of_columns": lambda path: a_scan(path, (6, 7), scan_input_axes=[1]),
    "weights_first": net(
        [helper.make_node("MatMul", ["m", "x"], ["y"])], [value("x", [2, 5])], [open_end("y", 2)], [MATRIX]
    ),
    "sizes_written_below_one": net([conv()], [value("x", [1, 3, 0, 0])]),
    "a_batch_written_below_one": net([conv()], [value("x", [-1, 3, 8, 8])]),
    "a_convolution_of_another_domain": net(
        [conv(output="h"), conv(domain="mine", output="y")], [PICTURE], [value("y", [1, 4, 8, 8])]
    ),
    "a_sequence": net(
        [conv(output="h"), helper.make_node("SequenceConstruct", ["h"], ["y"])],
        [PICTURE],
        [helper.make_tensor_sequence_value_info("y", FLOAT, None)],
    ),
    "equal_layers_at_computed_sizes": lambda path: computed_sizes(path, 2),
}


# What is asked, its shapes on the command line, and what is counted: MACs, parameters, and what is named.
MODELS = [
    (an_open_batch, (), CONV, WEIGHTS, {}),
    (an_open_batch, ("x=2,3,8,8",), CONV, WEIGHTS, {}),
    (an_open_batch, ("x=1,3,16,8",), 2 * CONV, WEIGHTS, {}),
    (no_batch_axis, (), CONV, WEIGHTS, {}),
    ("weights_as_a_node", (), CONV, WEIGHTS, {}),
    (weights_that_are_turned, (), CONV, WEIGHTS, {}),
    (weights_that_are_joined, (), CONV, WEIGHTS, {}),
    (sparse_weights, (), CONV, WEIGHTS, {}),
    (a_second_input_first, (), CONV, WEIGHTS, {}),
    (the_same_weights_twice, (), 2 * CONV, WEIGHTS, {}),
    (a_function, (), CONV, WEIGHTS, {}),
    (a_branch, (), CONV, WEIGHTS, {}),
    ("a_loop", (), 5 * CONV, WEIGHTS, {}),
    ("a_loop_that_was_counted_down", (), 0, WEIGHTS, {}),
    ("a_loop_that_does_not_begin", (), 0, WEIGHTS, {}),
    ("a_loop_that_ends_itself", (), CONV, WEIGHTS, {}),
    ("a_computed_loop", (), 0, WEIGHTS, {"Loop: how often it runs is computed": 1}),
    ("a_scan_of_columns", (), 7 * 12, 12 + 2, {}),
    ("weights_first", (), 5 * 12, 12 + 6, {}),
    (rows_that_meet, (), 6 * 6 * 6, 0, {}),
    ("sizes_written_below_one", (), 0, WEIGHTS, {"Conv: a size is open": 1}),
    ("a_batch_written_below_one", (), CONV, WEIGHTS, {}),
    ("a_convolution_of_another_domain", (), CONV, WEIGHTS, {"Conv (mine)": 1}),
    (a_sparse_initialiser, (), CONV, WEIGHTS, {}),
    (weights_made_in_the_old_way, (), CONV, WEIGHTS, {}),
    (a_scan, (), 7 * 12, 12 + 2, {}),
    (another_domain, (), CONV, WEIGHTS, {"Secret (mine)": 1}),
    ("a_sequence", (), CONV, WEIGHTS, {}),
    (a_map, (), 6, 9, {}),
    (quantised, (), CONV, WEIGHTS, {}),
    (a_summation, (), 5 * 6 * 2, 12, {}),
    (recurrent, (), 7 * 16 * 7, 16 * 7, {}),
    (computed_sizes, (), 20, WEIGHTS + 25, {"Conv: a size is open": 1}),
    (computed_sizes, ("x=1,3,8,8",), CONV + 20, WEIGHTS + 25, {}),
    ("equal_layers_at_computed_sizes", ("x=1,3,8,8",), 2 * CONV + 20, WEIGHTS + 25, {}),
]


@pytest.mark.parametrize(("make", "shapes", "macs", "parameters", "uncounted"), MODELS)
def test_a_model_costs_what_it_computes_however_it_is_written(tmp_path, make, shapes, macs, parameters, uncounted):
    given = {name: tuple(map(int, sizes.split(","))) for name, _, sizes in (one.partition("=") for one in shapes)}
    cost = model_file_cost(NETS.get(make, make)(tmp_path / "model.onnx"), given)
    assert (cost.macs, cost.parameters, dict(cost.uncounted)) == (macs, parameters, uncounted)
    figures = {name: figure for name, figure in cost.document().items() if isinstance(figure, int)}
    assert min(figures.values()) >= 0, figures


def test_weights_in_a_second_file_are_found_next_to_the_model_from_any_folder(tmp_path, monkeypatch):
    path = saved(tmp_path / "model.onnx", [conv()], [PICTURE])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="model.data", size_threshold=0)
    (tmp_path / "elsewhere").mkdir()
    for folder in (tmp_path, tmp_path / "elsewhere"):
        monkeypatch.chdir(folder)
        cost = model_file_cost(path)
        assert (cost.macs, cost.parameters, cost.weight_bytes) == (CONV, WEIGHTS, 4 * KERNEL.size)
    (tmp_path / "model.data").unlink()
    with pytest.raises(BadInput, match="not valid"):
        model_file_cost(path)


@pytest.mark.parametrize(
    ("make", "options", "code", "words"),
    [
        (an_open_batch, [], 0, "6,912 MACs"),
        (another_domain, [], 3, "1 operation could not be counted; the figures are lower bounds."),
        (another_domain, [], 3, "not counted: Secret (mine)"),
        (computed_sizes, [], 3, "Give the sizes that are open: --shape x=1,3,?,?."),
        (computed_sizes, ["--shape", "x=1,3,8,8"], 0, "6,932 MACs"),
        (computed_sizes, ["--shape", "x=1,3,8"], 2, "the input x has 4 sizes; got 3"),
        (computed_sizes, ["--shape", "image=1,3,8,8"], 2, "an input of x was expected; got image"),
        (computed_sizes, ["--shape", "x=1,3,eight,8"], 2, "NAME=1,3,224,224 was expected"),
    ],
)
def test_the_command_names_what_it_does_not_count_and_asks_for_open_sizes(tmp_path, make, options, code, words):
    ended = CliRunner().invoke(app, ["cost", str(make(tmp_path / "model.onnx")), *options])
    text = ended.output + (str(ended.exception) if ended.exception else "")
    assert words in text
    found = getattr(ended.exception, "exit_code", ended.exit_code)
    assert found == code


@pytest.mark.parametrize("form", ["keras", "tflite"])
def test_an_open_size_of_keras_and_tflite_is_named_and_taken_from_the_command(tmp_path, form):
    import keras
    import tensorflow as tf

    image = keras.Input((None, None, 3), name="image")
    model = keras.Model(image, keras.layers.Conv2D(4, 3, padding="same", use_bias=False)(image))
    path = tmp_path / f"model.{form}"
    if form == "keras":
        model.save(path)
        assert dict(model_file_cost(path).uncounted) == {f"'{model.layers[-1].name}' (Conv2D): a size is open": 1}
    else:
        path.write_bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert())
        assert dict(model_file_cost(path).uncounted) == {"CONV_2D: a size is open": 1}
        with pytest.raises(BadInput, match="an input of"):
            model_file_cost(path, {"nothing": (1, 8, 8, 3)})
    assert model_file_cost(path, {"image": (1, 8, 8, 3)}).macs == CONV


def lite(of, *signature):
    import tensorflow as tf

    made = tf.function(of, input_signature=[tf.TensorSpec(shape, kind) for shape, kind in signature])
    return tf.lite.TFLiteConverter.from_concrete_functions([made.get_concrete_function()]).convert()


def test_rows_and_branches_of_tflite_are_followed_and_a_second_signature_is_named(tmp_path):
    import tensorflow as tf

    matrix, path = tf.ones((6, 6)), tmp_path / "model.tflite"

    def met(x):
        return tf.boolean_mask(x, x[:, 0] > 0) @ matrix

    class Two(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((1, 6))])
        def code(self, x):
            return {"c": x @ matrix}

    two = Two()
    tf.saved_model.save(two, tmp_path / "two", signatures={"code": two.code, "again": two.code})
    keys = {"signature_keys": ["code", "again"]}
    for model, macs, parameters, uncounted in (
        (lite(lambda x: tf.reshape(x, [-1, 6]) @ matrix, ((None, 4, 4, 6), tf.float32)), 16 * 36, 42, {}),
        (lite(lambda x, c: tf.cond(c, lambda: x @ matrix, lambda: x), ((1, 6), tf.float32), ((), tf.bool)), 36, 42, {}),
        (lite(met, ((5, 6), tf.float32)), 0, 42, {"FULLY_CONNECTED: a size is open": 1}),
        (lite(lambda x: tf.matmul(x, x, transpose_b=True), ((6, 6), tf.float32)), 6 * 36, 0, {}),
        (tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "two"), **keys).convert(), 36, 42, None),
    ):
        path.write_bytes(model)
        found = model_file_cost(path)
        assert (found.macs, found.parameters) == (macs, parameters)
        assert dict(found.uncounted) == uncounted or (uncounted is None and "the signature" in str(found.uncounted))


def test_what_was_exported_here_has_no_size_left_open(tmp_path):
    with pytest.raises(BadInput, match=r"do not know how to count Secret \(mine\)"):
        file_cost(another_domain(tmp_path / "model.onnx").read_bytes(), "onnx")


def test_two_weights_of_four_bits_are_one_byte(tmp_path):
    weights = helper.make_tensor("w", TensorProto.INT4, [6, 2], np.ones(12, np.int8))
    node = helper.make_node("Gather", ["w", "x"], ["y"])
    saved(tmp_path / "model.onnx", [node], [value("x", [1], TensorProto.INT64)], [open_end("y", 2)], [weights])
    model = onnx.load(tmp_path / "model.onnx")
    model.opset_import[0].version, model.ir_version = 21, 10
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT4
    onnx.save(model, tmp_path / "model.onnx")
    assert model_file_cost(tmp_path / "model.onnx").weight_bytes == 6


def test_json_has_what_was_not_counted(tmp_path):
    ended = CliRunner().invoke(app, ["cost", str(computed_sizes(tmp_path / "model.onnx")), "--json"])
    document = json.loads(ended.stdout)["costs"]["model.onnx"]
    assert document["uncounted"] == {"Conv: a size is open": 1}
    assert document["open_inputs"] == {"x": [1, 3, -1, -1]}
