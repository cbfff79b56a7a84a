"""Keras 3 to ONNX through PyTorch: ``torch.onnx`` and onnxscript, which are developed, without TensorFlow or tf2onnx.

A process of its own opens the model with Keras on PyTorch (``keras_onnx_worker``), for a process has one backend of
Keras. onnxruntime then moves the transposes between PyTorch's order of axes and Keras' together, and the graph, which
is of opset 18, is written for the opset that the boards read.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.export.converters.converter import input_shapes
from edgeveil.trainer.export.converters.onnx_files import OnnxConverter, tidy
from edgeveil.trainer.interrupts import point
from edgeveil.trainer.tensorflow_quiet import quiet

NEWEST = 18  # what torch.onnx writes
LIMIT_S = 600
_WORKER = "edgeveil.trainer.export.converters.keras_onnx_worker"


class KerasOnnx(OnnxConverter):
    """Keras on PyTorch, and ``torch.onnx``."""

    name = "keras-onnx"
    modules = ("torch", "onnxscript", "onnx", "onnxruntime")
    install = "pip install 'edgeveil[trainer,torch,converters]'"
    packages = ("keras", "torch", "onnxscript", "onnx", "onnxruntime", "onnxconverter-common")

    def float32(self, model: Any, batch: int) -> Any:
        """The model as a graph of the opset that was asked for, 18 at most."""
        import keras
        import onnx

        shapes = input_shapes(model, batch)
        opset = min(self.opset or NEWEST, NEWEST)
        with tempfile.TemporaryDirectory() as folder, quiet():
            keras.Model(model.inputs, model.outputs).save(Path(folder) / "model.keras")
            _run([folder, ",".join(model.output_names), *(f"{name}={shape}" for name, shape in shapes.items())])
            proto = _optimised(_with_biases(onnx.load(Path(folder) / "model.onnx")), Path(folder) / "optimised.onnx")
        return tidy(_written_for(proto, opset))


def _run(words: list[str]) -> None:
    environment = {**os.environ, "KERAS_BACKEND": "torch"}
    try:
        done = subprocess.run(  # noqa: S603 - this Python, and a module of ours
            [sys.executable, "-m", _WORKER, *words],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise BadInput(f"keras-onnx: torch.onnx was not done after {LIMIT_S} s: take tf2onnx for this model.") from None
    point()  # Ctrl-C ends the worker as well
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:300]
        raise ValueError(f"torch.onnx: {last}")


def _with_biases(proto: Any) -> Any:
    """x - constant as x + (-constant), and a sum after a convolution and its transpose as the convolution's bias.

    onnxruntime folds no difference, and no sum after the last transpose.
    """
    from onnx import numpy_helper

    makers = {name: node for node in proto.graph.node for name in node.output}
    constants = {one.name: one for one in proto.graph.initializer}
    for node in list(proto.graph.node):
        if node.op_type == "Sub" and node.input[1] in constants:
            name = f"{node.input[1]} of {node.name}"
            value = -numpy_helper.to_array(constants[node.input[1]])
            proto.graph.initializer.append(numpy_helper.from_array(value, name))
            node.op_type, node.input[1] = "Add", name
            constants[name] = proto.graph.initializer[-1]
        turned = makers.get(node.input[0]) if node.op_type == "Add" and node.input[1] in constants else None
        if turned is None or turned.op_type != "Transpose":
            continue
        conv = makers.get(turned.input[0])
        if conv is None or conv.op_type != "Conv" or len(conv.input) > 2 or _users(proto, turned.output[0]) > 1:
            continue
        value = numpy_helper.to_array(constants[node.input[1]])
        if value.size == constants[conv.input[1]].dims[0] and value.shape[-1] == value.size:
            proto.graph.initializer.append(numpy_helper.from_array(value.reshape(-1), f"bias of {conv.name}"))
            conv.input.append(f"bias of {conv.name}")
            turned.output[0] = node.output[0]
            proto.graph.node.remove(node)
    return proto


def _users(proto: Any, name: str) -> int:
    return sum(list(node.input).count(name) for node in proto.graph.node)


def _optimised(proto: Any, path: Path) -> Any:
    """The graph, written to ``path``, with constants folded and transposes moved together; operations of ONNX alone."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(path)


def _written_for(proto: Any, opset: int) -> Any:
    """The graph, of opset 18, as one of ``opset``: only where no operation has anything that it had not by then.

    ONNX's own converter goes down for few operations. Raises ``ValueError`` with what does not fit.
    """
    import onnx

    del proto.opset_import[:]
    proto.opset_import.append(onnx.helper.make_opsetid("", opset))
    proto.ir_version = onnx.helper.find_min_ir_version_for(list(proto.opset_import))
    for node in proto.graph.node:
        try:
            schema, later = (onnx.defs.get_schema(node.op_type, version) for version in (opset, NEWEST))
        except onnx.defs.SchemaError:
            raise ValueError(f"{node.op_type} is not of ONNX opset {opset}") from None
        added = [one for one in node.attribute if one.name not in schema.attributes]
        for one in added:
            # Which is of a size of 0 alone, and no size is.
            is_default = one.name == "allowzero" or one == _default(later, one.name)
            if not is_default:
                raise ValueError(f"{node.op_type} of opset {opset} has no {one.name}")
            node.attribute.remove(one)
        missing = [name for name, one in schema.attributes.items() if one.required and name not in _names(node)]
        if len(node.input) > schema.max_input or missing:
            raise ValueError(f"{node.op_type} is written otherwise in opset {opset}")
    onnx.checker.check_model(proto, full_check=True)
    return proto


def _default(schema: Any, name: str) -> Any:
    return schema.attributes[name].default_value


def _names(node: Any) -> set[str]:
    return {one.name for one in node.attribute}
