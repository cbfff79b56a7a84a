"""The manifest's entry for one artefact: its tensors, read from the file that ships."""

from __future__ import annotations

import hashlib
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs.graph import Graph, Tensor


def artefact_entry(
    data: bytes, graph: Graph, *, file: str, precision: str, inputs: list[str], outputs: list[str], max_abs: float
) -> dict[str, Any]:
    """ARTEFACT of the manifest (docs/reference/bundle-format.md) for the bytes ``data`` that ``graph`` was read from.

    ``inputs`` and ``outputs`` are the names that the artefact stage uses, in its order. ``tensor`` is the
    *interpreter's* name: in TFLite that of the flatbuffer's tensor (``serving_default_image:0``), which does not depend
    on signatures (interpreters before 2.5 have none); in ONNX the graph's.
    ``max_abs`` is the self-test's tolerance, in units of x'.
    """
    return {
        "file": file,
        "format": graph.format,
        "precision": precision,
        "sha256": hashlib.sha256(data).hexdigest(),
        "weight_bytes": graph.weight_bytes(),
        "inputs": [_tensor(name, graph.inputs) for name in inputs],
        "outputs": [_tensor(name, graph.outputs) for name in outputs],
        "tolerance": {"max_abs": float(max_abs)},
    }


def _tensor(name: str, tensors: Any) -> dict[str, Any]:
    if name not in tensors:
        raise BadInput(f"the artefact has no tensor {name!r}; it has {', '.join(sorted(tensors))}.")
    tensor: Tensor = tensors[name]
    return {
        "name": name,
        "tensor": tensor.name,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "scale": tensor.scales[0] if tensor.scales else None,
        "zero_point": tensor.zero_points[0] if tensor.scales else None,
    }
