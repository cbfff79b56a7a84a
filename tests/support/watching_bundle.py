"""Bundles for boards that watch: 320 x 180 colour pictures from a camera, through a real int8 interpreter."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support import bundles, tiny_models

CAPTURE = {
    "frame": {"shape": [180, 320, 3], "dtype": "uint8", "unit_mm": None},
    "access_points": None,
    "measure": "value",
    "low": None,
    "high": None,
    "crop": None,
    "resize": "area",
    "slots": 1,
    "tick_hz": 5.0,
    "on_fault": "previous",
    "degraded_after_s": 60,
}


OVERHEAD = {
    **CAPTURE,
    "frame": {"shape": [424, 512], "dtype": "uint16", "unit_mm": 1.0},
    "measure": "depth",
    "resize": "nearest",
    "low": 0.0,
    "high": 4000.0,
}


def watching_bundle(folder: Path, *names: str, capture: dict[str, Any] = CAPTURE) -> tuple[Path, ...] | Any:
    """The owner's trust folder, then a bundle with the real runtime for each name. Takes seconds: TensorFlow.

    ``capture``: ``CAPTURE``, or ``OVERHEAD`` for depth from the ceiling (``simulate:depth``).
    """
    (folder / "test.pub").write_text(public_key_line(bundles.trusted()))
    TrustFolder.init(folder / "root", [folder / "test.pub"], passphrase="correct horse")  # noqa: S106
    manifest, members = tiny_models.example()
    members[bundles.RUNTIME_MEMBER] = zipapp_bytes()
    manifest["profiles"]["raspberry-pi-cpu"] = {"artefacts": ["tflite-int8"], "backends": ["tflite"]}
    manifest["capture"] = capture
    made = []
    for name in names:
        mine = copy.deepcopy(manifest)
        mine["name"] = name
        made.append(bundles.make_bundle(folder, example=(mine, members), name=f"{name}.veil"))
    return folder / "root", *made
