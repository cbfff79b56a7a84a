"""Keras 3 to ONNX by ``tf2onnx``: opset 13, whatever the boards read.

Tensors keep the channels-last order of the networks; nothing here turns a model's inputs to channels-first.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from edgeveil.trainer.export.converters.converter import function, input_specs
from edgeveil.trainer.export.converters.onnx_files import OnnxConverter, tidy
from edgeveil.trainer.tensorflow_quiet import quiet

LARGEST_SIDE = 4096  # pixels: a scale is the quotient of two sides
OPSET = 13  # the newest that JetPack 4.6 and OpenVINO 2022.3 read; its IR is 7


class Tf2Onnx(OnnxConverter):
    """``tf2onnx``, from a function of TensorFlow."""

    name = "tf2onnx"
    modules: tuple[str, ...] = ("tensorflow", "tf2onnx", "onnx", "onnxruntime")
    packages: tuple[str, ...] = (
        "tensorflow",
        "tensorflow-cpu",
        "keras",
        "tf2onnx",
        "onnx",
        "onnxruntime",
        "onnxconverter-common",
    )

    def float32(self, model: Any, batch: int) -> Any:
        """The model as a graph of opset 13."""
        import tf2onnx

        with quiet():
            proto, _ = tf2onnx.convert.from_function(
                function(model, batch), input_signature=input_specs(model, batch), opset=OPSET
            )
        _resize_to_whole_sizes(proto)
        return tidy(proto)


def _resize_to_whole_sizes(proto: Any) -> None:
    """Round scales of resizes up in float32 where they were rounded down.

    By the specification (floor of size times scale), 23 / 12 rounded down makes 22 of 12. Some runtimes round to
    nearest, and a checker refuses the graph.
    """
    from onnx import numpy_helper

    constants = {constant.name: constant for constant in proto.graph.initializer}
    for node in proto.graph.node:
        if node.op_type != "Resize" or len(node.input) < 3 or node.input[2] not in constants:
            continue
        constant = constants[node.input[2]]
        scales = numpy_helper.to_array(constant)
        short = np.array([Fraction(float(s)) < Fraction(float(s)).limit_denominator(LARGEST_SIDE) for s in scales])
        scales = np.where(short, np.nextafter(scales, np.float32(np.inf)), scales)
        constant.CopyFrom(numpy_helper.from_array(scales, constant.name))
