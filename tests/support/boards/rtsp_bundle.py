"""A bundle for the gray picture of an RTSP camera, 320 x 240, whose perturber takes 8 x 8."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.bundle.reader import read_bundle, read_file
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from tests.hostile_bundles import one_artefact, onnx_models
from tests.support import bundles


def make(folder: Path) -> Any:
    """A ``bundles.Made`` in ``folder``."""
    manifest, members = one_artefact.example("onnx", onnx_models.good())
    manifest["capture"] = {
        **bundles.captured_example()[0]["capture"],
        "frame": {"shape": [240, 320], "dtype": "uint8", "unit_mm": None},
        "measure": "value",
        "low": None,
        "high": None,
        "crop": None,
        "slots": 1,
    }
    return bundles.make_bundle(folder / "bundle", example=(manifest, members))


def manifest_of(made: Any) -> Any:
    """Its manifest, verified."""
    return read_bundle(read_file(str(made.path)), open_trust(str(made.trust))).manifest
