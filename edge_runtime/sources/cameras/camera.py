"""``camera:0`` or ``camera:/dev/video0``: a USB or built-in camera by V4L2, read by OpenCV."""

import os
from typing import Any, Optional

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, Disconnected, FrameDropped, Stalled, Unsupported
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.opencv import opencv
from edgeveil.edge_runtime.sources.base import Freshness, Sensor, Source, now_ns
from edgeveil.edge_runtime.sources.cameras.lock import Claim
from edgeveil.edge_runtime.sources.convert import fit, fits, need_image


class CameraSource(Source):
    """Colour or gray pictures of 8 bits, or 16 bits as the camera has them (Y16, Z16), at the bundle's size."""

    live = True

    def __init__(self, where: str, spec: Sensor, freshness: Optional[Freshness] = None) -> None:
        need_image(spec, "a camera")
        self._device = "/dev/video" + where if where.isdigit() else where
        if not os.path.isabs(self._device) or spec["dtype"] not in ("uint8", "uint16"):
            raise BadInput(
                "expected camera:0 or camera:/dev/video0 and a bundle for uint8 or uint16; got {!r} and {}".format(
                    "camera:" + where, spec["dtype"]
                )
            )
        self.name = "camera " + self._device
        self._spec, self._cv2 = spec, opencv()
        self._capture: Any = None
        self._fresh = freshness or Freshness(self.name)
        if not os.path.exists(self._device):
            raise Disconnected(
                "there is no camera at {}: plug it in, or see v4l2-ctl --list-devices".format(self._device)
            )
        self._claim = Claim(os.path.realpath(self._device))
        self._next = 0
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        cv2, spec = self._cv2, self._spec
        number = self._device[len("/dev/video") :]
        self._capture = cv2.VideoCapture(int(number) if number.isdigit() else self._device, cv2.CAP_V4L2)
        if not self._capture.isOpened():
            raise Unsupported(
                "{} cannot be opened: another program may have it, or this user may not (group video)".format(self.name)
            )
        self._capture.set(cv2.CAP_PROP_BUFFERSIZE, 1)  # what is old is of no use
        if spec["dtype"] == "uint16":
            self._capture.set(cv2.CAP_PROP_CONVERT_RGB, 0)
            self._capture.set(cv2.CAP_PROP_FOURCC, cv2.VideoWriter_fourcc(*"Y16 "))
        self._capture.set(cv2.CAP_PROP_FRAME_HEIGHT, spec["shape"][0])
        self._capture.set(cv2.CAP_PROP_FRAME_WIDTH, spec["shape"][1])
        fits(self._read(), spec, self.name, cv2)

    def next(self) -> Optional[RawFrame]:
        """The next picture. OpenCV waits for it, 10 s at most."""
        picture = self._read()
        index, self._next = self._next, self._next + 1
        taken = now_ns()
        self._fresh.check(picture)
        return RawFrame(fit(picture, self._spec, self._cv2), index, taken)

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
        """Let the camera go."""
        if self._capture is not None:
            self._capture.release()
        self._claim.release()
