"""What a bundle expects of the sensor."""

from typing import Any, Dict, Optional

from edgeveil.edge_runtime.manifest.manifest import CaptureRules, Input


def expected(spec: Input, capture: Optional[CaptureRules]) -> Dict[str, Any]:
    """What the sensor must give: the frame of the manifest's ``capture``, or without one the pipeline's ``input``.

    ``kind`` is "image" with ``shape`` (height, width, channels), or "vector" with (features,); ``dtype``; ``unit_mm``,
    the millimetres of one step of a depth sample, or None; ``access_points``, in order, or None.
    """
    frame: Any = spec if capture is None else capture.frame
    shape = list(frame.shape)
    return {
        "kind": "vector" if len(shape) == 1 else "image",
        "shape": shape + [1] if len(shape) == 2 else shape,
        "dtype": frame.dtype,
        "unit_mm": None if capture is None else capture.frame.unit_mm,
        "access_points": None if capture is None else capture.access_points,
    }
