"""``kinect:``: the depth of a Kinect for Xbox 360 (v1), by libfreenect 0.5 through ctypes.

It uses the callback interface, which recordings under ``fakenect`` have too.
"""

import ctypes
import time
from typing import Any, Optional

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, Disconnected, SourceFailed
from edgeveil.edge_runtime.sources.base import STALL_S, Sensor
from edgeveil.edge_runtime.sources.convert import DepthCamera
from edgeveil.edge_runtime.sources.install_hints import Claim, missing

SHAPE = (480, 640)
LIBRARY = "libfreenect.so.0.5"
MEDIUM, ELEVEN_BITS = 1, 0  # freenect_resolution, freenect_depth_format
DEPTH_CAMERA = 2  # of freenect_device_flags: the motor and the colour camera are left alone
FATAL = 0  # freenect_loglevel
NO_READING = 2047


def _millimetres() -> np.ndarray:
    """The mm of each of 2048 raw values, 0 where there is no depth: OpenKinect's inverse-linear calibration."""
    raw = np.arange(2048)
    with np.errstate(divide="ignore"):
        mm = 1000.0 / (raw * -0.0030711016 + 3.3309495161)
    return np.where((raw >= NO_READING) | (mm < 0) | (mm > 10000), 0, np.rint(mm))


class _Mode(ctypes.Structure):
    """``freenect_frame_mode``."""

    _fields_ = [
        ("reserved", ctypes.c_uint32),
        ("resolution", ctypes.c_int),
        ("format", ctypes.c_int),
        ("bytes", ctypes.c_int32),
        ("width", ctypes.c_int16),
        ("height", ctypes.c_int16),
        ("data_bits_per_pixel", ctypes.c_int8),
        ("padding_bits_per_pixel", ctypes.c_int8),
        ("framerate", ctypes.c_int8),
        ("is_valid", ctypes.c_int8),
    ]


class _Time(ctypes.Structure):
    """``struct timeval``."""

    _fields_ = [("seconds", ctypes.c_long), ("microseconds", ctypes.c_long)]


_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32)


def _library() -> Any:
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        raise missing("a Kinect is read by libfreenect", "freenect") from None
    pointer = ctypes.c_void_p
    library.freenect_find_depth_mode.restype = _Mode
    library.freenect_set_depth_mode.argtypes = [pointer, _Mode]
    library.freenect_set_depth_callback.argtypes = [pointer, _Callback]
    library.freenect_open_device.argtypes = [pointer, pointer, ctypes.c_int]
    library.freenect_process_events_timeout.argtypes = [pointer, ctypes.POINTER(_Time)]
    library.freenect_select_subdevices.argtypes = [pointer, ctypes.c_int]
    library.freenect_set_log_level.argtypes = [pointer, ctypes.c_int]
    for name in ("num_devices", "start_depth", "stop_depth", "close_device", "shutdown"):
        getattr(library, "freenect_" + name).argtypes = [pointer]
    return library


class KinectSource(DepthCamera):
    """The newest depth, uint16 (480, 640, 1) in the bundle's ``unit_mm``, 0 where there is none.

    ``kinect:`` is the first one found, ``kinect:1`` the second. The library's events are handled inside ``next`` only.
    """

    schemes = ("kinect",)
    forms = ("kinect:", "kinect:1")
    help = "depth of a Kinect v1, 480 x 640, in mm"
    needs = ("freenect",)

    def __init__(self, where: str, spec: Sensor) -> None:
        super(KinectSource, self).__init__("a Kinect", "Kinect {}".format(where or 0), spec)
        if (where and not where.isdigit()) or list(spec["shape"][:2]) != list(SHAPE):
            raise BadInput(
                "expected kinect: (or kinect:1 for the second one) and a bundle for pictures of {}; got {!r} and "
                "{}".format(SHAPE, "kinect:" + where, tuple(spec["shape"][:2]))
            )
        self._depth = np.minimum(_millimetres() / (spec["unit_mm"] or 1.0), 65535).round().astype(np.uint16)
        self._library = _library()
        self._claim = Claim("kinect {}".format(where or 0))
        self._context, self._device = ctypes.c_void_p(), ctypes.c_void_p()
        self._callback = _Callback(self._take)
        self._taken: Optional[np.ndarray] = None
        self._start(where)

    def _open(self, where: str) -> None:
        library, number = self._library, int(where or 0)
        if library.freenect_init(ctypes.byref(self._context), None) < 0:
            raise SourceFailed("libfreenect does not start: is there a USB bus?")
        library.freenect_set_log_level(self._context, FATAL)
        library.freenect_select_subdevices(self._context, DEPTH_CAMERA)
        if library.freenect_num_devices(self._context) <= number:
            raise Disconnected("there is no {}: plug it in, with its own power supply".format(self.name))
        if library.freenect_open_device(self._context, ctypes.byref(self._device), number) < 0:
            raise Disconnected(
                "{} cannot be opened: another program may have it, or this user may not".format(self.name)
            )
        mode = library.freenect_find_depth_mode(MEDIUM, ELEVEN_BITS)
        if library.freenect_set_depth_mode(self._device, mode) < 0:
            raise SourceFailed("{} does not give depth of 11 bits at {}".format(self.name, SHAPE))
        library.freenect_set_depth_callback(self._device, self._callback)
        if library.freenect_start_depth(self._device) < 0:
            raise Disconnected("{} does not start its depth camera".format(self.name))

    def _take(self, _device: Any, data: int, _stamp: int) -> None:
        """The library calls this from inside ``next``, and reuses its buffer afterwards."""
        raw = np.ctypeslib.as_array((ctypes.c_uint16 * (SHAPE[0] * SHAPE[1])).from_address(data))
        self._taken = self._depth.take(raw, mode="clip").reshape(SHAPE + (1,))

    def _read(self) -> np.ndarray:
        self._taken, until = None, time.monotonic() + STALL_S
        while self._taken is None:
            if self._library.freenect_process_events_timeout(self._context, ctypes.byref(_Time(0, 200000))) < 0:
                raise Disconnected("{} has gone: it was unplugged, or has no power".format(self.name))
            if self._taken is None and time.monotonic() > until:
                raise self._stalled()
        return self._taken

    def close(self) -> None:
        """Stop and release the camera."""
        if self._device:
            self._library.freenect_stop_depth(self._device)
            self._library.freenect_close_device(self._device)
            self._device = ctypes.c_void_p()
        if self._context:
            self._library.freenect_shutdown(self._context)
            self._context = ctypes.c_void_p()
        self._claim.release()
