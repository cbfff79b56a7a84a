"""OpenCV, imported when something needs it."""

import importlib
from typing import Any

from edgeveil.edge_runtime.errors import Missing


def opencv() -> Any:
    """The OpenCV module; raises ``Missing``."""
    try:
        return importlib.import_module("cv2")
    except ImportError:
        problem = "images are read and written by OpenCV, which is not here: pip install opencv-python-headless"
    raise Missing(problem)
