"""Libraries that are imported when they are first used: numpy, and OpenCV with the pictures that it reads.

A bundle is verified where there is no numpy. A name that is not UTF-8 ends OpenCV with a segmentation fault, so no
picture is read by its name.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Union

from edgeveil.edge_runtime.errors import BadInput, Missing

if TYPE_CHECKING:
    import numpy as np
else:

    class _Later(object):
        """Stands for the module; ``ndarray`` in annotations imports nothing."""

        def __getattr__(self, name: str) -> Any:
            if name == "ndarray" and "numpy" not in sys.modules:
                return Any
            import numpy

            value = self.__dict__[name] = getattr(numpy, name)
            return value

    np = _Later()

__all__ = ["decoded", "film_name", "np", "opencv"]


# What numpy's BLAS reads when it is loaded: its threads would share products that take microseconds, and wait by
# computing. And ``isolation.enter`` expects a process of a single thread.
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
MOST_PIXELS = 2**26  # of a picture that is decoded; OpenCV looks at its header first
MOST_FITTED = 2**24  # of one of any size that a bundle's `fit` brings to its own


def one_thread() -> None:
    """Let numpy compute on one thread in this process, which has not loaded it; variables that are set are kept."""
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)


def opencv() -> Any:
    """The OpenCV module; raises ``Missing``."""
    os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", str(MOST_PIXELS))  # it reads this when it is loaded
    loaded = "cv2" in sys.modules
    try:
        cv2 = importlib.import_module("cv2")
    except ImportError:
        problem = "images need OpenCV, which is not installed: pip install opencv-python-headless"
    else:
        if not loaded:
            cv2.setNumThreads(1)  # its threads wait by computing, and one picture gives them little to share
        return cv2
    raise Missing(problem)


def decoded(data: bytes) -> Any:
    """The picture in a file's bytes, (height, width[, channels]) in OpenCV's order; None where there is none.

    A JPEG that was cut short is none: OpenCV fills the rest with gray.
    """
    cv2 = opencv()
    if data[:3] == b"\xff\xd8\xff" and data.rfind(b"\xff\xd9") < data.rfind(b"\xff\xda"):  # no end after its last scan
        return None
    try:
        return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED) if data else None
    except cv2.error:
        return None


def film_name(path: Union[str, "os.PathLike[str]"]) -> str:
    """``path`` as OpenCV may open it. Raises ``BadInput`` where it is not UTF-8."""
    name = os.fspath(path)
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise BadInput("OpenCV opens films by names in UTF-8 alone; {!r} is none: rename it".format(name)) from None
    return os.path.join(os.curdir, name)  # FFmpeg takes the beginning of 10:30.mp4 for a protocol
