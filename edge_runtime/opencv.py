"""OpenCV, imported on demand."""

import importlib
from typing import Any

from edgeveil.edge_runtime.errors import Missing


def opencv() -> Any:
    """The OpenCV module; raises ``Missing``."""
    try:
        return importlib.import_module("cv2")
    except ImportError:
        problem = "images need OpenCV, which is not installed: pip install opencv-python-headless"
    raise Missing(problem)
