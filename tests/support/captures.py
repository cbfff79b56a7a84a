"""Captures of which only the sensor's side matters."""

from edgeveil.edge_runtime.manifest.manifest import CaptureRules


def capture_of(frame, access_points=None):
    return CaptureRules(frame, access_points, "value", None, None, None, None, 1, 10.0, "flat", 10.0)
