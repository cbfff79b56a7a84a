"""``camera:0`` or ``camera:/dev/video0``: a USB or built-in camera by V4L2, read by OpenCV."""

import os
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, Disconnected, FrameDropped, Stalled, Unsupported
from edgeveil.edge_runtime.late_imports import film_name, opencv
from edgeveil.edge_runtime.sources.base import Sensor
from edgeveil.edge_runtime.sources.convert import OpenCVCamera, fits, need_image
from edgeveil.edge_runtime.sources.install_hints import Claim


class CameraSource(OpenCVCamera):
    """Colour or gray pictures of 8 bits, or 16 bits as the camera has them (Y16, Z16), at the bundle's size."""

    schemes = ("camera",)
    forms = ("camera:0", "camera:/dev/video0")
    help = "USB or built-in camera by V4L2; 8 bits as gray or RGB, or 16 bits unchanged (Y16)"
    device_file = "/dev/video"
    groups = ("group",)
    calls = "flock sysinfo uname"
    ioctls = 0x56  # the type of its commands: 'V' of linux/videodev2.h

    def __init__(self, where: str, spec: Sensor) -> None:
        need_image(spec, "a camera")
        device = "/dev/video" + where if where.isdigit() else where
        if not os.path.isabs(device) or spec["dtype"] not in ("uint8", "uint16"):
            raise BadInput(
                "expected camera:0 or camera:/dev/video0 and a bundle for uint8 or uint16; got {!r} and {}".format(
                    "camera:" + where, spec["dtype"]
                )
            )
        if not os.path.exists(device):
            raise Disconnected("there is no camera at {}: plug it in, or see v4l2-ctl --list-devices".format(device))
        super(CameraSource, self).__init__("camera " + device, spec)
        self._device, self._cv2 = device, opencv()
        self._capture: Any = None
        self._claim = Claim(os.path.realpath(device))
        self._start(device)

    def _open(self, where: str) -> None:
        cv2, spec = self._cv2, self._spec
        number = where[len("/dev/video") :]
        self._capture = cv2.VideoCapture(int(number) if number.isdigit() else film_name(where), cv2.CAP_V4L2)
        if not self._capture.isOpened():
            raise Unsupported(
                "{} cannot be opened: another program may have it, or this user may not (group video)".format(self.name)
            )
        self._capture.set(cv2.CAP_PROP_BUFFERSIZE, 1)  # the newest picture only
        if spec["dtype"] == "uint16":
            self._capture.set(cv2.CAP_PROP_CONVERT_RGB, 0)
            self._capture.set(cv2.CAP_PROP_FOURCC, cv2.VideoWriter_fourcc(*"Y16 "))
        self._capture.set(cv2.CAP_PROP_FRAME_HEIGHT, spec["shape"][0])
        self._capture.set(cv2.CAP_PROP_FRAME_WIDTH, spec["shape"][1])
        fits(self._read(), spec, self.name)

    def _read(self) -> np.ndarray:
        good, picture = self._capture.read()
        if good and picture is None:
            raise FrameDropped("unreadable")
        if good:
            return picture
        if not os.path.exists(self._device):
            raise Disconnected("{} has gone: it was unplugged".format(self.name))
        raise Stalled("{} gives no pictures any more. Unplug it and plug it in again.".format(self.name))

    def close(self) -> None:
        """Release the camera."""
        if self._capture is not None:
            self._capture.release()
        self._claim.release()
