"""Where frames come from: ``open_source("camera:0")``, ``"kinect:"``, ``"npz:FILE"``; docs/reference/sources.md."""

import importlib
from typing import Optional

from edgeveil.edge_runtime.camera_address import on_network
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import CaptureRules, Input
from edgeveil.edge_runtime.manifest.sensor import expected
from edgeveil.edge_runtime.sources.base import Source

__all__ = ["Source", "on_network", "open_source"]

# kind: module, class, whether it needs text behind the colon
_KINDS = {
    "csv": ("text", "LinesSource", True),
    "arff": ("text", "ArffSource", True),
    "npz": ("npz", "NpzSource", True),
    "images": ("images", "ImagesSource", True),
    "simulate": ("simulate", "SimulatedSource", True),
    "video": ("video", "VideoSource", True),
    "camera": ("cameras.camera", "CameraSource", True),
    "libcamera": ("cameras.libcamera", "LibcameraSource", False),
    "gst": ("cameras.gst", "GstSource", True),
    "kinect": ("cameras.kinect", "KinectSource", False),
    "openni": ("cameras.openni", "OpenNISource", False),
    "realsense": ("cameras.realsense", "RealSenseSource", False),
    "wifi": ("wifi", "WifiSource", True),
    "http": ("network.http", "HttpSource", True),
    "https": ("network.http", "HttpsSource", True),
    "rtsp": ("network.rtsp", "RtspSource", True),
}
_REPLAYED = ("images", "video")  # files that can be played at the pace they were recorded at


def open_source(
    text: str,
    spec: Input,
    capture: Optional[CaptureRules] = None,
    *,
    realtime: bool = False,
    repeat: bool = False,
) -> Source:
    """The source that ``text`` (``KIND:WHERE``) names.

    ``spec`` is the manifest's ``input`` and ``capture`` its ``capture``: together they say what the sensor must give.
    ``realtime`` plays a recording at its own pace, as if it were live; ``repeat`` starts it again at its end.
    Raises ``BadInput`` for an unknown kind or a file that holds no such samples, ``Missing`` where a library that
    the kind needs is not installed, ``SourceFailed`` where the device is not there or cannot give such frames.
    """
    kind, colon, where = text.partition(":")
    if kind not in _KINDS or not colon or (not where and _KINDS[kind][2]):
        kinds = ", ".join(name + ":" for name in sorted(_KINDS))
        problem = "expected a source as KIND:WHERE, such as npz:FILE or images:DIR, with a KIND of {}; got {!r}"
        # The text after the colon may be an address with a password.
        raise BadInput(problem.format(kinds, kind + ":" if colon and where else text))
    if (realtime or repeat) and kind not in _REPLAYED:
        problem = (
            "expected a recording ({}) to play in real time or again and again; {}: is not one. Leave that option out."
        )
        raise BadInput(problem.format(", ".join(name + ":" for name in _REPLAYED), kind))
    module, name, _ = _KINDS[kind]
    make = getattr(importlib.import_module("edgeveil.edge_runtime.sources." + module), name)
    sensor = expected(spec, capture)
    if kind in _REPLAYED:
        return make(where, sensor, realtime=realtime, repeat=repeat)
    return make(where, sensor)
