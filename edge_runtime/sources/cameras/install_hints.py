"""What to install for a source, by board."""

import importlib
from typing import Any, Optional

from edgeveil.edge_runtime.errors import Missing
from edgeveil.edge_runtime.machine import facts

# Part of a board's name -> its entry in ``_HINTS``; the first that fits counts.
_BOARDS = (
    ("Raspberry Pi", "pi"),
    ("Jetson", "jetson"),
    ("Phanbell", "coral"),
    ("Coral", "coral"),
)
_HINTS = {
    "opencv": {
        "pi": "sudo apt install python3-opencv",
        "jetson": "JetPack has it: run with the system's own python3",
        "coral": "sudo apt-get install python3-opencv",
        "": "pip install opencv-python-headless",
    },
    "picamera2": {
        "pi": "sudo apt install python3-picamera2",
        "": "cameras through libcamera are for the Raspberry Pi; use camera:0 or gst:",
    },
    "gstreamer": {
        "": "sudo apt install python3-gi gir1.2-gst-plugins-base-1.0 gstreamer1.0-plugins-base, and run with the "
        "system's own python3",
    },
    "freenect": {"": "sudo apt install libfreenect0.5"},
    "openni": {"": "sudo apt install libopenni2-0"},
    "realsense": {
        "pi": "build librealsense with its Python bindings; there is no wheel for ARM",
        "jetson": "build librealsense with its Python bindings; there is no wheel for ARM",
        "coral": "build librealsense with its Python bindings; there is no wheel for ARM",
        "": "pip install pyrealsense2",
    },
    "iw": {"": "sudo apt install iw"},
}


def missing(what: str, library: str, board: Optional[str] = None) -> Missing:
    """A ``Missing`` for ``library``, with this board's hint. ``what`` begins the sentence."""
    name = (facts()["board"] or "") if board is None else board
    kind = next((kind for words, kind in _BOARDS if words in name), "")
    hints = _HINTS[library]
    return Missing("{}, which is not here: {}".format(what, hints.get(kind, hints[""])))


def load(module: str, what: str, library: str) -> Any:
    """The Python module of that name. Raises ``missing(what, library)`` where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise missing(what, library) from None
