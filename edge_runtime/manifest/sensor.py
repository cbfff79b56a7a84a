"""What a bundle expects of the sensor."""

from typing import Any, Dict, Optional

from edgeveil.edge_runtime.manifest.manifest import CaptureRules, Input

SENSORS = ("camera", "depth", "wifi", "motion")  # what a bundle may be for; files may hold what any of them gave


def expected(spec: Input, capture: Optional[CaptureRules]) -> Dict[str, Any]:
    """What the sensor must give: the frame of the manifest's ``capture``, or without one the pipeline's ``input``.

    ``kind`` is "image" with ``shape`` (height, width, channels), "vector" with (features,), or "series" with (steps,
    channels), where the frames are whole windows; one step of a series is a vector. ``dtype``; ``unit_mm``, the
    millimetres of one step of a depth sample, or None; ``access_points``, in order, or None.
    """
    frame: Any = spec if capture is None else capture.frame
    shape, kind = list(frame.shape), "vector" if len(frame.shape) == 1 else "image"
    if spec.kind == "series" and capture is None:
        kind = "series"
    return {
        "kind": kind,
        "shape": shape + [1] if len(shape) == 2 and kind == "image" else shape,
        "dtype": frame.dtype,
        "unit_mm": None if capture is None else capture.frame.unit_mm,
        "access_points": None if capture is None else capture.access_points,
    }
