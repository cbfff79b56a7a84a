"""A bundle of one artefact: images uint8 (8, 8, 1) in 0..16, of which it says to make 0.5 everywhere.

Its tensors are called ``image`` (1, 8, 8, 1), ``noise`` (1, 16) and ``output``.
"""

from __future__ import annotations

import hashlib

import numpy as np

from tests.support import bundles


def example(form: str, data: bytes) -> tuple[bundles.Manifest, bundles.Members]:
    """Manifest and members for these bytes of an artefact of the format ``tflite`` or ``onnx``."""
    manifest, members = bundles.artefact_example(audited=False)
    variant = f"{form}-float32"
    file = f"artefacts/generator.{variant}.{form}"
    members = {
        bundles.RUNTIME_MEMBER: members[bundles.RUNTIME_MEMBER],
        file: data,
        "golden/input.npy": bundles.npy(np.arange(128, dtype=np.uint8).reshape(2, 8, 8, 1) % 16),
        "golden/draws.noise.npy": members["golden/draws.noise.npy"],
        f"golden/{variant}.frame.npy": bundles.npy(np.full((2, 8, 8, 1), 8, np.uint8)),
    }
    artefacts = manifest["models"]["generator"]["artefacts"]
    entry = {**artefacts["onnx-float32"], "file": file, "format": form, "sha256": hashlib.sha256(data).hexdigest()}
    entry["inputs"] = [{**one, "tensor": one["name"]} for one in entry["inputs"]]
    entry["outputs"] = [{**one, "tensor": one["name"]} for one in entry["outputs"]]
    manifest["models"]["generator"]["artefacts"] = {variant: entry}
    manifest["preference"] = [variant]
    manifest["profiles"] = {"workstation": {"artefacts": [variant], "backends": [form]}}
    manifest["golden"]["outputs"] = {variant: {"frame": f"golden/{variant}.frame.npy"}}
    return manifest, members
