"""Keras 3 to ONNX by ``tf2onnx``, with int8 by NNCF, OpenVINO's quantiser: for Intel's processors, GPUs and NPUs.

OpenVINO reads the file as it is; for its own IR a board would need a reader of another format. NNCF's defaults are not
taken: ranges are the smallest and largest value, biases stay as trained (its correction moved a generator's pixels
eight times as far from Keras), and weights have 7 bits, so that a processor without VNNI computes what the board does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from edgeveil.trainer.export.converters.converter import calibration_rows
from edgeveil.trainer.export.converters.onnx_files import tidy
from edgeveil.trainer.export.converters.tf2onnx import Tf2Onnx


class Nncf(Tf2Onnx):
    """``tf2onnx``, and ``nncf.quantize`` of its graph."""

    name = "nncf"
    modules = ("tensorflow", "tf2onnx", "onnx", "onnxruntime", "nncf")
    install = "pip install 'edgeveil[trainer,nncf]'"
    packages = (*Tf2Onnx.packages, "nncf")

    def int8(self, float32: Any, calibration: Mapping[str, np.ndarray] | None) -> Any:
        """The graph with steps to int8 and back around what OpenVINO has in int8."""
        rows = list(calibration_rows(calibration)())
        os.environ.setdefault("NNCF_CI", "1")  # without it NNCF reports its use to its makers
        import nncf
        from nncf.quantization.range_estimator import RangeEstimatorParametersSet

        present = {node.name for node in float32.graph.node}
        made = nncf.quantize(
            float32,
            nncf.Dataset(rows),
            subset_size=len(rows),
            preset=nncf.QuantizationPreset.MIXED,  # after tanh and the like values have both signs
            ignored_scope=nncf.IgnoredScope(names=[name for name in self.keep_float if name in present]),
            advanced_parameters=nncf.AdvancedQuantizationParameters(
                overflow_fix=nncf.OverflowFix.ENABLE,
                disable_bias_correction=True,
                activations_range_estimator_params=RangeEstimatorParametersSet.MINMAX,
            ),
        )
        return tidy(made)
