"""What a model may not do is refused at each door that a file can come in by; what is exported passes."""

from __future__ import annotations

import struct
import time

import numpy as np
import onnx
import pytest
from ai_edge_litert import schema_py_generated as schema
from onnx import TensorProto, helper, numpy_helper

from edgeveil.edge_runtime.api import Perturber
from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.errors import BundleRefused, FrameDropped
from edgeveil.edge_runtime.manifest.model_lint import check, check_all, problems
from edgeveil.trainer.export import export
from edgeveil.trainer.export.artefact import Artefact
from tests.hostile_bundles import one_artefact, tflite_models
from tests.support import bundles
from tests.support.boards import edge_tpu

node = helper.make_node


def model(*nodes, opset=13, functions=(), initial=(), inputs=()):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, 8, 1]) for name in ("image", "output")]
    noise = helper.make_tensor_value_info("noise", TensorProto.FLOAT, [1, 16])
    graph = helper.make_graph(list(nodes), "g", [ends[0], noise, *inputs], ends[1:], list(initial))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions)).SerializeToString()


def seeded():
    """x plus noise that the maker can take away again: it is drawn from a seed in the file."""
    draw = node("RandomUniformLike", ["image"], ["r"], low=0.0, high=17.0, seed=4242.0)
    return model(draw, node("Add", ["image", "r"], ["output"]))


def branch(*nodes):
    out = [helper.make_tensor_value_info("b", TensorProto.FLOAT, [1, 8, 8, 1])]
    return helper.make_graph([*nodes], "branch", [], out)


def hidden():
    """The same, within a branch within a branch."""
    draw = branch(node("RandomNormal", [], ["b"], shape=[1, 8, 8, 1]))
    yes = numpy_helper.from_array(np.array(True), "yes")
    inner = branch(node("If", ["yes"], ["b"], then_branch=draw, else_branch=draw))
    return model(node("If", ["yes"], ["output"], then_branch=inner, else_branch=inner), initial=[yes])


def looped():
    draw = branch(node("Multinomial", ["image"], ["b"]))
    return model(node("Loop", ["", "", "image"], ["output"], body=draw))


def function():
    made = helper.make_function(
        "own", "F", ["a"], ["b"], [node("Identity", ["a"], ["b"])], [helper.make_opsetid("", 13)]
    )
    return model(node("Identity", ["image"], ["output"]), functions=[made])


ONNX = {
    "seed": (seeded(), "no-random"),
    **{
        kind: (model(node(kind, ["image"], ["output"])), "no-random")
        for kind in ("Bernoulli", "Multinomial", "RandomNormalLike", "RandomUniform", "RandomNormal")
    },
    "branch": (hidden(), "no-random"),
    "loop": (looped(), "no-random"),
    "function": (function(), "built-in"),
    "EPContext": (model(node("EPContext", ["image"], ["output"], domain="com.microsoft")), "built-in"),
    "own domain": (model(node("Relu", ["image"], ["output"], domain="own")), "built-in"),
    "Dropout": (model(node("Dropout", ["image", "ratio", "on"], ["output"])), "no-random"),
    "BatchNormalization": (
        model(node("BatchNormalization", list("xsbmv"), ["output"], training_mode=1), opset=15),
        "no-random",
    ),
    "no protocol buffer": (b"junk" * 9, "whole"),
    "half a file": (seeded()[:-7], "whole"),
}


@pytest.mark.parametrize("name", ONNX)
def test_an_onnx_file_that_breaks_a_rule_is_refused(name):
    data, rule = ONNX[name]
    assert {one.rule for one in problems(data, "onnx")} == {rule}
    with pytest.raises(BundleRefused, match=rule):
        check(data, "onnx")


def test_of_a_field_that_is_there_twice_each_is_looked_at():
    harmless = model(node("Add", ["image", "image"], ["output"]))
    proto = onnx.load_from_string(harmless)
    one = proto.graph.node[0].SerializeToString()
    twice = one + b"\x22\x0dRandomUniform"  # op_type again: the last one counts for protocol buffers
    graph = b"\x0a" + bytes([len(twice)]) + twice
    data = b"\x08\x07\x3a" + bytes([len(graph)]) + graph
    assert [one.rule for one in problems(data, "onnx")] == ["no-random"]


def test_a_file_that_is_onnx_and_of_onnx_runtime_too_is_refused():
    data = bytearray(model(node("Relu", ["image"], ["output"])))
    assert problems(bytes(data), "onnx") == []
    data[4:8] = b"ORTM"
    assert [one.rule for one in problems(bytes(data), "onnx")] == ["one-format"]


def tflite(operation="ADD", *, variable=False, subgraphs=1, custom=None, old=None):
    file = tflite_models.File()
    if operation != "ADD":
        shape = file.main.tensor("shape", [1], "int32", [1])
        file.main.operate(operation if custom is None else custom, [shape], file.main.tensor("r", [1]))
    if old is not None:
        file.model.operatorCodes[0].deprecatedBuiltinCode = old
    for number in range(1, subgraphs):
        file.subgraph(f"other {number}")
    if variable:
        tensor = file.main.tensor("state", [1])
        file.main.made.tensors[tensor].isVariable = True
    return file.finish()


def early(kind):
    """An operation reads the tensor ``state`` before it is written: it holds what the frame before left there."""
    file = tflite_models.File()
    state = file.main.tensor("state", [1, 8, 8, 1])
    if kind == "input":
        file.main.made.inputs.append(state)
    if kind == "no values":
        file.main.made.tensors[state].shape = [0]
    if kind.startswith("bytes"):  # by an offset or a size that the interpreter does not follow
        number = file.main.made.tensors[state].buffer = file.buffer(b"")
        buffer = file.model.buffers[number]
        buffer.offset, buffer.size = (1, 256) if kind.endswith("offset") else (256, 1)
    output = file.main.tensor("output", [1, 8, 8, 1])
    file.main.operate("ADD", [file.image, state], output, schema.AddOptionsT())
    if kind != "never" and not kind.startswith("bytes"):
        file.main.operate("MUL", [file.image, file.image], state, schema.MulOptionsT())
    file.main.made.outputs = [output]
    return file.packed()


EARLY = ("later", "input", "no values", "never", "bytes at no offset", "bytes of no size")
KEEPING = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE", "HASHTABLE_FIND")
TFLITE = {
    **{name: (tflite(name), "no-state") for name in KEEPING},
    "variable": (tflite(variable=True), "no-state"),
    **{
        name: (tflite(name), "no-random")
        for name in ("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL", "STABLEHLO_RNG_BIT_GENERATOR")
    },
    "its number hidden by a larger one without a sign": (tflite("RANDOM_UNIFORM", old=200 - 256), "no-random"),
    **{kind: (early(kind), "no-state") for kind in EARLY},
    "two graphs": (tflite(subgraphs=2), "one-subgraph"),
    "custom": (tflite("CUSTOM", custom="FlexRandomUniform"), "built-in"),
    "another vendor's": (tflite("CUSTOM", custom="ethos-u"), "built-in"),
    "compiled, and not said so": (tflite("CUSTOM", custom="edgetpu-custom-op"), "built-in"),
    "custom call": (tflite("STABLEHLO_CUSTOM_CALL"), "built-in"),
    "no flatbuffer": (b"junk" * 9, "whole"),
    "half a file": (tflite()[:90], "whole"),
    "root before the file": (struct.pack("<I4s", 8, b"TFL3") + struct.pack("<i", 64) + b"\0" * 64, "whole"),
    "endless vector": (bundles.EMPTY_TFLITE[:28] + b"\xff\xff\xff\x7f" + bundles.EMPTY_TFLITE[32:], "whole"),
}


@pytest.mark.parametrize("name", TFLITE)
def test_a_tflite_file_that_breaks_a_rule_is_refused(name):
    data, rule = TFLITE[name]
    assert {one.rule for one in problems(data, "tflite")} == {rule}


def test_what_a_compiler_made_may_have_its_own_operation_and_no_other():
    assert problems(tflite("CUSTOM", custom="edgetpu-custom-op"), "tflite", compiled=True) == []
    assert problems(tflite("CUSTOM", custom="ethos-u"), "tflite", compiled=True) != []
    for rest in (False, True):
        assert problems(edge_tpu.compiled(tflite_models.good(), rest=rest), "tflite", compiled=True) == []


@pytest.mark.parametrize("form", ["hef", "rknn", "numpy"])
def test_a_format_without_a_graph_has_no_rules(form):
    assert problems(b"anything", form) == []


def test_what_the_product_exports_passes(tiny):
    check_all(tiny.manifest, tiny.members)
    check_all(*bundles.artefact_example())
    check_all(*bundles.cleaner_example())
    check(tflite(), "tflite")
    check(tflite("CUSTOM", custom="TFLite_Detection_PostProcess"), "tflite")
    scalar = tflite_models.File()  # a constant without values is never written
    scalar.main.operate("RESHAPE", [scalar.image, scalar.main.tensor("to", [0], "int32")], scalar.main.tensor("s", []))
    check(scalar.finish(), "tflite")


def test_it_takes_the_time_of_the_graph_and_not_of_the_weights():
    weights = numpy_helper.from_array(np.zeros(2**23, np.float32), "w")  # 32 MiB
    large = model(node("Relu", ["image"], ["output"]), initial=[weights])
    began = time.perf_counter()
    assert problems(large, "onnx") == []
    assert time.perf_counter() - began < 0.25


def test_an_interpreter_that_fails_prints_no_value_of_a_reading(capfd):
    """ONNX Runtime logs an index beyond a table, which is of the reading."""
    table = numpy_helper.from_array(np.zeros((9, 1, 8, 8, 1), np.float32), "table")
    nodes = [
        node("ReduceMax", ["image"], ["most"], keepdims=0),
        node("Cast", ["most"], ["index"], to=TensorProto.INT64),
        node("Gather", ["table", "index"], ["output"]),
    ]
    data = model(*nodes, initial=[table])
    manifest, _ = one_artefact.example("onnx", data)
    entry = manifest["models"]["generator"]["artefacts"]["onnx-float32"]
    backend = open_backend("onnx", data, entry)
    noise = np.zeros((1, 16), np.float32)
    backend.run({"image": np.full((1, 8, 8, 1), 8, np.float32), "noise": noise})
    with pytest.raises(FrameDropped, match="backend"):
        backend.run({"image": np.full((1, 8, 8, 1), 4711, np.float32), "noise": noise})
    assert "4711" not in "".join(capfd.readouterr())


def test_export_refuses_it():
    made = Artefact("onnx-float32")
    made.data["generator"] = seeded()
    with pytest.raises(BundleRefused, match=r"onnx-float32 of 'generator' may not be used: .*RandomUniformLike draws"):
        export._lint([made], [])


def loose(allowed, dtype="uint8"):
    manifest, members = one_artefact.example("onnx", model(node("Relu", ["image"], ["output"])))
    manifest["models"]["generator"]["artefacts"]["onnx-float32"]["tolerance"]["max_abs"] = allowed
    manifest["input"]["dtype"] = dtype
    return manifest, members


@pytest.mark.parametrize("allowed", [4.0, 1.0, 0.0])
def test_a_tolerance_up_to_a_quarter_of_the_range_is_one(allowed):
    check_all(*loose(allowed))


@pytest.mark.parametrize("allowed", [4.1, 16.0, 1e9])
def test_a_tolerance_that_takes_most_outputs_for_others_is_refused(allowed):
    with pytest.raises(BundleRefused, match="a quarter of the range, 4") as refused:
        check_all(*loose(allowed))
    assert refused.value.reason == "tolerance"


def test_one_step_of_whole_numbers_is_always_allowed():
    manifest, members = loose(1.0)
    manifest["input"]["high"] = 3.0
    check_all(manifest, members)
    manifest["input"]["dtype"] = "float32"
    with pytest.raises(BundleRefused, match="quarter"):
        check_all(manifest, members)


class Keeping:
    """A model of a kind that no lint looks into: it adds what it was given before."""

    device = "cpu"

    def __init__(self, runner):
        self._runner, self._last = runner, 0.0

    def run(self, inputs):
        found = self._runner.run(inputs)
        made = {name: np.asarray(found[name]) + np.float32(self._last) for name in found}
        self._last = float(np.asarray(next(iter(inputs.values()))).mean()) * 1e-3
        return made

    def __getattr__(self, name):
        return getattr(self._runner, name)


def test_a_model_whose_outputs_depend_on_what_it_ran_before_fails_its_self_test(tiny):
    from edgeveil.edge_runtime.errors import DeviceFailed
    from edgeveil.edge_runtime.pipeline.reconstruction import self_test

    with Perturber.open(tiny.path, trust=tiny.trust, artefact="onnx-float32") as perturber:
        (name,) = perturber.pipeline.runners
        perturber.pipeline.runners = {name: Keeping(perturber.pipeline.runners[name])}
        with pytest.raises(DeviceFailed, match="other outputs for the same input"):
            self_test(perturber.pipeline, perturber.manifest, perturber._golden, "onnx-float32")
