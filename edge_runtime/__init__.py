"""What runs on the board: a signed bundle in, raw frames in, perturbed frames out, and nothing else.

    from edge_runtime import Perturber, RawFrame

    with Perturber.open("demo.veil", trust="trust") as perturber:
        out = perturber.perturb(RawFrame(picture, index=0))

Needs the standard library and numpy; an interpreter, a source or a sink brings its own library when it is asked for.
"""

from edge_runtime.errors import (
    BadInput,
    BundleRefused,
    DeviceFailed,
    EdgeVeilError,
    FrameDropped,
    LimitNotMet,
    PrivacyStop,
)
from edge_runtime.frames import PerturbedFrame, RawFrame
from edge_runtime.perturber import Perturber
from edge_runtime.pipeline import Pipeline, load_pipeline

__version__ = "0.1.0"

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
    "__version__",
    "load_pipeline",
]
