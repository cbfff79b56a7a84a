"""A bundle with a detector of our own: an ONNX network that finds bright cells in a camera's picture, 8 by 8 pixels."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.support import bundles
from tests.support.promised.counting_bundle import COUNT, counting_example

PICTURE = (64, 64, 3)
FRAME = (128, 256, 3)
CELL = 8


def network() -> bytes:
    """Means of cells as scores (1, 64), and the cells as boxes (1, 64, 4): top, left, bottom, right, as shares."""
    at = np.arange(8) / 8
    top, left = (one.reshape(-1) for one in np.meshgrid(at, at, indexing="ij"))
    cells = np.stack([top, left, top + 1 / 8, left + 1 / 8], axis=-1)[None].astype(np.float32)
    nodes = [
        helper.make_node("ReduceMean", ["picture"], ["gray"], axes=[3], keepdims=1),
        helper.make_node("Transpose", ["gray"], ["first"], perm=[0, 3, 1, 2]),
        helper.make_node("AveragePool", ["first"], ["cells"], kernel_shape=[CELL, CELL], strides=[CELL, CELL]),
        helper.make_node("Reshape", ["cells", "flat"], ["scores"]),
        helper.make_node("Identity", ["grid"], ["boxes"]),
    ]
    ends = [helper.make_tensor_value_info("picture", TensorProto.FLOAT, [1, *PICTURE])]
    outs = [("boxes", [1, 64, 4]), ("scores", [1, 64])]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outs]
    constants = [numpy_helper.from_array(cells, "grid"), numpy_helper.from_array(np.array([1, 64]), "flat")]
    graph = helper.make_graph(nodes, "cells", ends, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def tensor(name: str, shape: list[int]) -> dict[str, Any]:
    return {"name": name, "tensor": name, "shape": shape, "dtype": "float32", "scale": None, "zero_point": None}


def detector(data: bytes) -> dict[str, Any]:
    """The manifest's section."""
    entry = {
        "file": "artefacts/detector.onnx",
        "format": "onnx",
        "precision": "float32",
        "sha256": hashlib.sha256(data).hexdigest(),
        "weight_bytes": 1,
        "inputs": [tensor("picture", [1, *PICTURE])],
        "outputs": [tensor("boxes", [1, 64, 4]), tensor("scores", [1, 64])],
        "tolerance": {"max_abs": 0.01},
    }
    return {
        "artefact": entry,
        "golden": {"input": "golden/detector.input.npy", "scores": "golden/detector.scores.npy"},
        "low": 0.0,
        "high": 1.0,
        "order": "yxyx",
        "unit": "share",
        "person": None,
        "least_score": 0.5,
        "point": "centre",
        "step_px": 60,
        "gone_frames": 3,
    }


def detector_example(**count: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Manifest and members: ``counting_example`` behind a colour camera."""
    manifest, members = counting_example(**count)
    data = network()
    pictures = np.random.default_rng(0).random((2, *PICTURE)).astype(np.float32)
    means = pictures.mean(axis=3).reshape(2, 8, CELL, 8, CELL).mean(axis=(2, 4)).reshape(2, 64)
    members |= {
        "artefacts/detector.onnx": data,
        "golden/detector.input.npy": bundles.npy(pictures),
        "golden/detector.scores.npy": bundles.npy(means.astype(np.float32)),
    }
    manifest["capture"].update(
        frame={"shape": list(FRAME), "dtype": "uint8", "unit_mm": None},
        crop=None,
        measure="value",
        low=0.0,
        high=255.0,
        slots=1,
    )
    line = {"name": "door", "start": [0, 128], "end": [128, 128]}
    manifest["count"] = {**COUNT, "lines": [line], "zones": [], "margin_px": 8.0, **count}
    return {**manifest, "detector": detector(data)}, members
