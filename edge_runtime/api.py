"""The public interface of the runtime: it takes a signed bundle and raw frames, and emits only perturbed frames.

    from edgeveil.edge_runtime.api import Perturber, RawFrame

    with Perturber.open("demo.veil", trust="trust") as perturber:
        out = perturber.perturb(RawFrame(picture, index=0))

It needs the standard library and numpy; interpreters, sources and sinks import their own libraries when opened.
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
