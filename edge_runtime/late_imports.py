"""Libraries that are imported when they are first used: numpy, what sources and sinks need, and OpenCV's pictures.

A bundle is verified where there is no numpy. A name that is not UTF-8 ends OpenCV with a segmentation fault, so no
picture is read by its name.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Dict, NamedTuple, Optional, Union

from edgeveil.edge_runtime import machine
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

__all__ = ["LIBRARIES", "Library", "decoded", "film_name", "library", "load", "missing", "np", "opencv"]


class Library(NamedTuple):
    """What a source or a sink needs besides numpy.

    ``test`` shows that it is there: ``module:NAME``, ``library:FILE|FILE`` or ``program:NAME``. ``cures`` are what to
    do by the kind of board, ``""`` for any other. ``wheel`` is its package on the index, where that has one.
    """

    title: str
    test: str
    cures: Dict[str, str]
    wheel: str = ""


# Part of a board's name -> its word in ``cures``; the first that fits counts.
_BOARDS = (("Raspberry Pi", "pi"), ("Jetson", "jetson"), ("Phanbell", "coral"), ("Coral", "coral"))
LIBRARIES = {
    "opencv": Library(
        "OpenCV",
        "module:cv2",
        {
            "pi": "sudo apt install python3-opencv",
            "jetson": "JetPack has it: run with the system's own python3",
            "coral": "sudo apt-get install python3-opencv",
            "": "sudo apt install python3-opencv, or in a virtual environment pip install opencv-python-headless",
        },
        "opencv-python-headless",
    ),
    "picamera2": Library(
        "picamera2",
        "module:picamera2",
        {
            "pi": "sudo apt install python3-picamera2",
            "": "cameras through libcamera are for the Raspberry Pi; use camera:0 or gst:",
        },
    ),
    "gstreamer": Library(
        "PyGObject",
        "module:gi.repository.Gst",
        {
            "": "sudo apt install python3-gi gir1.2-gst-plugins-base-1.0 gstreamer1.0-plugins-base, and run with the "
            "system's own python3"
        },
    ),
    "freenect": Library("libfreenect 0.5", "library:libfreenect.so.0.5", {"": "sudo apt install libfreenect0.5"}),
    "openni": Library("libOpenNI2", "library:libOpenNI2.so.0|libOpenNI2.so", {"": "sudo apt install libopenni2-0"}),
    "realsense": Library(
        "pyrealsense2",
        "module:pyrealsense2",
        {
            "": "pip install pyrealsense2, which has wheels for x86-64 and 64-bit ARM; where none is for this Python, "
            "build librealsense with its Python bindings"
        },
    ),
    "orbbec": Library(
        "pyorbbecsdk2", "module:pyorbbecsdk", {"": "pip install 'edgeveil[orbbec]', or pyorbbecsdk2"}, "pyorbbecsdk2"
    ),
    "oak": Library("depthai 3", "module:depthai", {"": "pip install 'edgeveil[oak]', or 'depthai>=3'"}, "depthai"),
    "mlx90640": Library(
        "adafruit-circuitpython-mlx90640",
        "module:adafruit_mlx90640",
        {"": "pip install 'edgeveil[mlx90640]', or adafruit-circuitpython-mlx90640 adafruit-extended-bus"},
        "adafruit-circuitpython-mlx90640",
    ),
    "i2c-bus": Library(
        "adafruit-extended-bus",
        "module:adafruit_extended_bus",
        {"": "pip install 'edgeveil[mlx90640]', or adafruit-circuitpython-mlx90640 adafruit-extended-bus"},
        "adafruit-extended-bus",
    ),
    "vl53l5cx": Library(
        "vl53l5cx-ctypes",
        "module:vl53l5cx_ctypes",
        {"": "pip install 'edgeveil[vl53l5cx]', or vl53l5cx-ctypes"},
        "vl53l5cx-ctypes",
    ),
    "serial": Library("pyserial", "module:serial", {"": "pip install 'edgeveil[serial]', or pyserial"}, "pyserial"),
    "iw": Library("`iw`", "program:iw", {"": "sudo apt install iw"}),
    "paho": Library(
        "paho-mqtt",
        "module:paho.mqtt.client",
        {"": "sudo apt install python3-paho-mqtt, or in a virtual environment pip install 'paho-mqtt>=1.6,<3'"},
        "paho-mqtt",
    ),
    "kafka": Library("kafka-python", "module:kafka", {"": "pip install 'edgeveil[kafka]'"}, "kafka-python"),
    "nats": Library("nats-py", "module:nats", {"": "pip install 'edgeveil[nats]'"}, "nats-py"),
    "mcap": Library("mcap", "module:mcap.writer", {"": "pip install 'edgeveil[mcap]'"}, "mcap"),
    "rosbags": Library("rosbags", "module:rosbags.typesys", {"": "pip install 'edgeveil[mcap]'"}, "rosbags"),
}


def library(need: str) -> Library:
    """The library of a kind's ``needs``: a key of ``LIBRARIES``, or the test of one of another package."""
    known = LIBRARIES.get(need)
    name = need.partition(":")[2]
    return known or Library(name, need, {"": "install {}".format(name)})


def cure(need: str, board: Optional[str]) -> str:
    """What brings a library onto a board of that model; None: of none."""
    cures = library(need).cures
    return cures.get(next((word for words, word in _BOARDS if words in (board or "")), ""), cures[""])


def broken(why: str, numpy: Optional[str]) -> str:
    """Why a library that is there does not load; ``numpy`` is the version of the numpy there."""
    other = "multiarray" in why or "_ARRAY_API" in why or "numpy.core" in why
    built = ": it was built for another numpy than {}".format(numpy) if other and numpy else ""
    return "does not load ({}){}".format(why, built)


def missing(what: str, library: str, board: Optional[str] = None, error: Optional[BaseException] = None) -> Missing:
    """A ``Missing`` for ``library``, with this board's cure. ``what`` begins the sentence.

    ``error`` is what loading it raised: a library that is there and does not load needs another cure than none.
    """
    name = LIBRARIES[library].test.partition(":")[2].partition(".")[0]
    if error is None or (isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == name):
        return Missing(
            "{}, which is not here: {}".format(what, cure(library, machine.board() if board is None else board))
        )
    numpy = getattr(sys.modules.get("numpy"), "__version__", None)
    why = "{}: {}".format(type(error).__name__, " ".join(str(error).split())[:200])
    problem = "{}, which is here and {}. Take one that goes with this Python and numpy: {}"
    return Missing(problem.format(what, broken(why, numpy), cure(library, machine.board() if board is None else board)))


def load(module: str, what: str, library: str) -> Any:
    """The Python module of that name. Raises ``missing`` where it is not installed or does not load."""
    try:
        return importlib.import_module(module)
    except Exception as error:  # a library may raise anything as it is loaded
        problem = missing(what, library, error=error)
    raise problem


# What numpy's BLAS reads when it is loaded: its threads would share products that take microseconds, and wait by
# computing. And ``isolation.enter`` expects a process of a single thread.
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
MOST_PIXELS = 2**26  # of a picture that is decoded; OpenCV looks at its header first
MOST_FITTED = 2**24  # of one of any size that a bundle's `fit` brings to its own


# onnxruntime's wheels write an identifier of this machine into the user's cache as they are loaded, and may send it.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def one_thread() -> None:
    """Let numpy compute on one thread in this process, which has not loaded it; variables that are set are kept."""
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)


def opencv() -> Any:
    """The OpenCV module; raises ``Missing``."""
    loaded = sys.modules.get("cv2")
    if loaded is not None:
        return loaded
    os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", str(MOST_PIXELS))  # it reads this when it is loaded
    cv2 = load("cv2", "pictures are read by OpenCV", "opencv")
    cv2.setNumThreads(1)  # its threads wait by computing, and one picture gives them little to share
    return cv2


def decoded(data: bytes) -> Any:
    """The picture in a file's bytes, (height, width[, channels]) in OpenCV's order; None where there is none.

    A JPEG that was cut short is none: OpenCV fills the rest with gray.
    """
    cv2 = opencv()
    whole = data[:3] != b"\xff\xd8\xff" or data.endswith(b"\xff\xd9")  # else other bytes may follow the end
    if not whole and data.rfind(b"\xff\xd9") < data.rfind(b"\xff\xda"):  # no end after its last scan
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
