"""What runs on the board: a signed bundle in, raw frames in, perturbed frames out, and nothing else.

    from edgeveil.edge_runtime.api import Perturber, RawFrame

    with Perturber.open("demo.veil", trust="trust") as perturber:
        out = perturber.perturb(RawFrame(picture, index=0))

Needs the standard library and numpy; an interpreter, a source or a sink brings its own library when it is asked for.
"""

from edgeveil.edge_runtime.errors import (
    BadInput,
    BundleRefused,
    DeviceFailed,
    EdgeVeilError,
    FrameDropped,
    LimitNotMet,
    PrivacyStop,
)
from edgeveil.edge_runtime.frames import PerturbedFrame, RawFrame
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline, load_pipeline

__all__ = [
    "BadInput",
    "BundleRefused",
    "DeviceFailed",
    "EdgeVeilError",
    "FrameDropped",
    "LimitNotMet",
    "PerturbedFrame",
    "Perturber",
    "Pipeline",
    "PrivacyStop",
    "RawFrame",
    "load_pipeline",
]
