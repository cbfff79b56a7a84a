"""Where frames come from: ``open_source("camera:0")``, ``"kinect:"``, ``"npz:FILE"``; docs/reference/sources.md."""

import importlib
from typing import Optional

from edgeveil.edge_runtime.camera_address import on_network
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.kinds import SOURCES, check_sensor, check_source
from edgeveil.edge_runtime.manifest.manifest import CaptureRules, Input
from edgeveil.edge_runtime.manifest.sensor import expected
from edgeveil.edge_runtime.sources.base import Source

__all__ = ["Source", "on_network", "open_source"]

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
    Raises ``BadInput`` for an unknown kind, another sensor or a file that holds no such samples, ``Missing`` where a
    library that the kind needs is not installed, ``SourceFailed`` where the device is not there or cannot give such
    frames.
    """
    kind, where = check_source(text)
    check_sensor(text, spec.sensor)
    if (realtime or repeat) and kind not in _REPLAYED:
        problem = (
            "expected a recording ({}) to play in real time or again and again; {}: is not one. Leave that option out."
        )
        raise BadInput(problem.format(", ".join(name + ":" for name in _REPLAYED), kind))
    found = SOURCES[kind]
    make = getattr(importlib.import_module("edgeveil.edge_runtime.sources." + found.module), found.name)
    sensor = expected(spec, capture)
    if kind in _REPLAYED:
        return make(where, sensor, realtime=realtime, repeat=repeat)
    return make(where, sensor)
