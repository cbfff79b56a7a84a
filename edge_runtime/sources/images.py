"""``images:DIR``: the pictures of a folder in order of their names, 8 or 16 bits, read by OpenCV."""

import importlib
import os

import numpy as np

from edge_runtime.errors import BadInput, DeviceFailed, FrameDropped
from edge_runtime.frames import RawFrame
from edge_runtime.sources.base import Source, now_ns

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".pgm", ".ppm")


class NeedsOpenCV(DeviceFailed):
    """OpenCV is not installed. The user cures it: exit code 2."""

    exit_code = 2


def opencv():
    """The OpenCV module; raises ``NeedsOpenCV``."""
    try:
        return importlib.import_module("cv2")
    except ImportError:
        problem = "images are read and written by OpenCV, which is not here: pip install opencv-python-headless"
    raise NeedsOpenCV(problem)


class ImagesSource(Source):
    """One frame a picture: gray (height, width, 1), colour (height, width, 3) as RGB; ``index`` is its place."""

    def __init__(self, folder, spec):
        if spec["kind"] != "image":
            raise BadInput("this bundle perturbs vectors, and a folder of images holds none: use npz:FILE")
        self._cv2 = opencv()
        if not os.path.isdir(folder):
            raise BadInput("expected a folder of images at {}; there is none".format(folder))
        names = sorted(name for name in os.listdir(folder) if name.lower().endswith(SUFFIXES))
        if not names:
            raise BadInput("expected pictures ({}) in {}; there are none".format(", ".join(SUFFIXES), folder))
        self._paths = [os.path.join(folder, name) for name in names]
        self._next = 0
        self.size = len(names)

    def next(self):
        """The next picture as a ``RawFrame``, or None at the end."""
        place = self._next
        if place >= len(self._paths):
            return None
        self._next += 1
        picture = self._cv2.imread(self._paths[place], self._cv2.IMREAD_UNCHANGED)
        if picture is None:
            raise FrameDropped("unreadable")
        if picture.ndim == 2:
            picture = picture[:, :, None]
        elif picture.shape[2] == 3:
            # OpenCV's order is blue, green, red.
            picture = np.ascontiguousarray(picture[:, :, ::-1])
        return RawFrame(picture, place, now_ns())
