"""``openni:``: the depth of any camera that OpenNI2 has a driver for, by its C interface through ctypes.

A Kinect v2 needs libfreenect2's OpenNI2 driver; Asus Xtion, Orbbec Astra and others bring their own drivers.
"""

import ctypes
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import Disconnected, FrameDropped, SourceFailed, Unsupported
from edgeveil.edge_runtime.sources.base import STALL_S, Sensor
from edgeveil.edge_runtime.sources.convert import DepthCamera, need_shape, scale_depth
from edgeveil.edge_runtime.sources.install_hints import Claim, missing

LIBRARIES = ("libOpenNI2.so.0", "libOpenNI2.so")
VERSION = 2002  # of the interface: 2.2
DEPTH = 3  # OniSensorType
TIMED_OUT = 102  # OniStatus
FORMATS_MM = {100: 1.0, 101: 0.1}  # OniPixelFormat of 1 mm and of 100 um
VIDEO_MODE = 3  # ONI_STREAM_PROPERTY_VIDEO_MODE


class _Info(ctypes.Structure):
    """``OniDeviceInfo``."""

    _fields_ = [
        ("uri", ctypes.c_char * 256),
        ("vendor", ctypes.c_char * 256),
        ("name", ctypes.c_char * 256),
        ("vendor_id", ctypes.c_uint16),
        ("product_id", ctypes.c_uint16),
    ]


class _Mode(ctypes.Structure):
    """``OniVideoMode``."""

    _fields_ = [(name, ctypes.c_int) for name in ("format", "width", "height", "fps")]


class _Frame(ctypes.Structure):
    """``OniFrame``."""

    _fields_ = [
        ("size", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("sensor", ctypes.c_int),
        ("timestamp", ctypes.c_uint64),
        ("index", ctypes.c_int),
        ("width", ctypes.c_int),
        ("height", ctypes.c_int),
        ("mode", _Mode),
        ("cropped", ctypes.c_int),
        ("crop_x", ctypes.c_int),
        ("crop_y", ctypes.c_int),
        ("stride", ctypes.c_int),
    ]


def _library() -> Any:
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise missing("depth cameras of many makers are read by OpenNI2", "openni")


class OpenNISource(DepthCamera):
    """Depth uint16 (height, width, 1) in the bundle's ``unit_mm``, 0 where there is none.

    ``openni:`` is the first camera found, ``openni:URI`` the one at that address, as NiViewer2 shows it.
    """

    schemes = ("openni",)
    forms = ("openni:", "openni:URI")
    help = (
        "depth of a camera with an OpenNI2 driver; a Kinect v2 with libfreenect2's, on USB 3 with "
        "`usbcore.usbfs_memory_mb=64` or more"
    )
    needs = ("openni",)

    def __init__(self, where: str, spec: Sensor) -> None:
        super(OpenNISource, self).__init__("an OpenNI2 camera", "OpenNI2 camera " + (where or "(the first)"), spec)
        self._library = _library()
        self._claim = Claim("openni " + where)
        self._device, self._stream = ctypes.c_void_p(), ctypes.c_void_p()
        self._start(where)

    def _open(self, where: str) -> None:
        library = self._library
        if library.oniInitialize(VERSION):
            raise SourceFailed("OpenNI2 does not start: it finds no drivers (OpenNI2/Drivers next to its library)")
        uri = where.encode("utf-8") or self._first()
        if library.oniDeviceOpen(uri, ctypes.byref(self._device)):
            raise Disconnected("{} cannot be opened: plug it in, or see NiViewer2".format(self.name))
        if library.oniDeviceCreateStream(self._device, DEPTH, ctypes.byref(self._stream)):
            raise Unsupported("{} has no depth".format(self.name))
        height, width = self._spec["shape"][:2]
        mode = _Mode(100, width, height, 30)
        # A driver may have one mode only. Its answer does not say so; the shape of its picture does.
        library.oniStreamSetProperty(self._stream, VIDEO_MODE, ctypes.byref(mode), ctypes.sizeof(mode))
        if library.oniStreamStart(self._stream):
            raise Disconnected("{} does not start".format(self.name))
        need_shape(self._read(), self._spec, self.name)

    def _first(self) -> bytes:
        """The address of the first camera that the drivers find."""
        devices, count = ctypes.POINTER(_Info)(), ctypes.c_int()
        if self._library.oniGetDeviceList(ctypes.byref(devices), ctypes.byref(count)):
            raise SourceFailed("OpenNI2 does not say which cameras there are")
        try:
            if not count.value:
                raise Disconnected("OpenNI2 finds no camera: plug one in")
            return bytes(devices[0].uri)
        finally:
            self._library.oniReleaseDeviceList(devices)

    def _read(self) -> np.ndarray:
        library = self._library
        ready, frame = ctypes.c_int(-1), ctypes.POINTER(_Frame)()
        waited = library.oniWaitForAnyStream(ctypes.byref(self._stream), 1, ctypes.byref(ready), int(STALL_S * 1000))
        if waited == TIMED_OUT:
            raise self._stalled()
        if waited or library.oniStreamReadFrame(self._stream, ctypes.byref(frame)):
            raise Disconnected("{} has gone: it was unplugged".format(self.name))
        try:
            return self._copy(frame.contents)
        finally:
            library.oniFrameRelease(frame)

    def _copy(self, frame: Any) -> np.ndarray:
        """The picture in its own memory: the library reuses its buffer."""
        if frame.mode.format not in FORMATS_MM:
            raise Unsupported("{} gives depth in a format of its own ({})".format(self.name, frame.mode.format))
        if frame.stride * frame.height > frame.size or frame.width * 2 > frame.stride or frame.stride % 2:
            raise FrameDropped("shape")
        values = np.ctypeslib.as_array((ctypes.c_uint16 * (frame.size // 2)).from_address(frame.data))
        depth = values[: frame.stride // 2 * frame.height].reshape(frame.height, -1)[:, : frame.width]
        return scale_depth(depth, FORMATS_MM[frame.mode.format] / (self._spec["unit_mm"] or 1.0))

    def close(self) -> None:
        """Stop and release the camera.

        OpenNI2 itself keeps running: drivers crash when they are unloaded, and a camera that comes back needs it.
        """
        if self._stream:
            self._library.oniStreamStop(self._stream)
            self._library.oniStreamDestroy(self._stream)
            self._stream = ctypes.c_void_p()
        if self._device:
            self._library.oniDeviceClose(self._device)
            self._device = ctypes.c_void_p()
        self._claim.release()
