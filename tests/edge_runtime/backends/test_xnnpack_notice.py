"""XNNPACK's notice is dropped; what an interpreter logs about a model, or as it crashes, is not."""

import os
import signal
from types import SimpleNamespace

import flatbuffers
import pytest
from ai_edge_litert import schema_py_generated as schema

from edgeveil.edge_runtime.backends import select
from edgeveil.edge_runtime.backends.select import ONE_RELU, drop_notice
from tests.support import output


def one_relu():
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.RELU
    tensors = []
    for _ in range(2):
        tensor = schema.TensorT()
        tensor.shape, tensor.type, tensor.buffer = [1], schema.TensorType.FLOAT32, 0
        tensors.append(tensor)
    relu = schema.OperatorT()
    relu.inputs, relu.outputs = [0], [1]
    graph = schema.SubGraphT()
    graph.tensors, graph.inputs, graph.outputs, graph.operators = tensors, [0], [1], [relu]
    model = schema.ModelT()
    model.version, model.buffers, model.subgraphs, model.operatorCodes = 3, [schema.BufferT()], [graph], [code]
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def test_the_model_is_one_relu():
    assert one_relu() == ONE_RELU


OPEN = """
from ai_edge_litert import interpreter
from edgeveil.edge_runtime.backends.select import ONE_RELU, drop_notice
{}
interpreter.Interpreter(model_content=ONE_RELU).allocate_tensors()
"""


def test_the_real_interpreter_greets_nobody():
    assert "XNNPACK" in output.command("-c", OPEN.format("")).stderr, "then drop_notice is needed no more"
    assert output.command("-c", OPEN.format("drop_notice(interpreter)")).stderr == ""


def library(name, said):
    """An interpreter's package that writes ``said`` to stderr as it opens a model."""
    opened = []

    def interpreter(**options):
        opened.append(options["model_content"])
        os.write(2, said)
        return SimpleNamespace(allocate_tensors=lambda: None)

    return SimpleNamespace(__name__=name, Interpreter=interpreter, opened=opened)


@pytest.fixture(autouse=True)
def unheard(monkeypatch):
    monkeypatch.setattr(select, "_done", set())


def test_what_is_not_the_notice_is_passed_on(capfd):
    fake = library("fake", b"INFO: Created\nERROR: no memory\n")
    drop_notice(fake)
    assert capfd.readouterr().err == "ERROR: no memory\n"
    drop_notice(fake)
    assert fake.opened == [ONE_RELU]  # once a process


def test_stderr_is_itself_again_where_the_library_fails(capfd):
    def refuses(**_options):
        raise ValueError("no such operation")

    drop_notice(SimpleNamespace(__name__="fake", Interpreter=refuses))
    os.write(2, b"heard")
    assert capfd.readouterr().err == "heard"


def test_a_crash_while_a_model_opens_is_seen():
    done = output.command(
        "-c",
        """
import os, types
from edgeveil.edge_runtime.backends.select import ONE_RELU, drop_notice
def interpreter(model_content, **_):
    if model_content != ONE_RELU:
        os.write(2, b"terminate called: the reason")
        os.abort()
    return types.SimpleNamespace(allocate_tensors=lambda: None)
library = types.SimpleNamespace(__name__="fake", Interpreter=interpreter)
drop_notice(library)
library.Interpreter(model_content=b"a model")
""",
    )
    assert (done.returncode, done.stderr) == (-signal.SIGABRT, "terminate called: the reason")
