"""What to install for a source, by board."""

import fcntl
import hashlib
import importlib
import os
import tempfile
from typing import Any, Optional, Sequence

from edgeveil.edge_runtime.errors import Missing, Unsupported
from edgeveil.edge_runtime.machine import facts

# Part of a board's name -> its entry in ``_HINTS``; the first that fits counts.
_BOARDS = (("Raspberry Pi", "pi"), ("Jetson", "jetson"), ("Phanbell", "coral"), ("Coral", "coral"))
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
        "system's own python3"
    },
    "freenect": {"": "sudo apt install libfreenect0.5"},
    "openni": {"": "sudo apt install libopenni2-0"},
    "realsense": {
        "": "pip install pyrealsense2, which has wheels for x86-64 and 64-bit ARM; where none is for this Python, "
        "build librealsense with its Python bindings"
    },
    "orbbec": {"": "pip install 'edgeveil[orbbec]', or pyorbbecsdk2"},
    "oak": {"": "pip install 'edgeveil[oak]', or 'depthai>=3'"},
    "mlx90640": {"": "pip install 'edgeveil[mlx90640]', or adafruit-circuitpython-mlx90640 adafruit-extended-bus"},
    "vl53l5cx": {"": "pip install 'edgeveil[vl53l5cx]', or vl53l5cx-ctypes"},
    "serial": {"": "pip install 'edgeveil[serial]', or pyserial"},
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


# One camera, one process: a lock that ends with the process that holds it.


FOLDERS = ("/run/lock", None)  # None: the folder of temporary files


class Claim(object):
    """Locks the device called ``name`` for this process. Raises ``Unsupported`` where another one has it.

    The kernel lets several programs open one camera, and does not define what each then gets.
    """

    def __init__(self, name: str, folders: Sequence[Optional[str]] = FOLDERS) -> None:
        path = "edgeveil-{}.lock".format(hashlib.sha256(name.encode("utf-8")).hexdigest()[:16])
        self._file: Optional[int] = None
        for folder in folders:
            try:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._file = os.open(os.path.join(folder or tempfile.gettempdir(), path), flags, 0o666)
                break
            except OSError:
                continue
        if self._file is None:
            return  # no folder for a lock: then the camera's driver decides
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.release()
            raise Unsupported(
                "another process has {}: two loops cannot share a camera. Stop the other one.".format(name)
            ) from None

    def release(self) -> None:
        """Unlock the device."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
