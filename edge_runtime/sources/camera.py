"""``camera:0`` or ``camera:/dev/video0``: a USB or built-in camera by V4L2, read by OpenCV."""

import os
from typing import Any, Optional, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, Disconnected, FrameDropped, Stalled, Unsupported
from edgeveil.edge_runtime.kinds import options_of
from edgeveil.edge_runtime.late_imports import film_name, opencv
from edgeveil.edge_runtime.sources.base import Sensor
from edgeveil.edge_runtime.sources.convert import OpenCVCamera, fits, need_image
from edgeveil.edge_runtime.sources.install_hints import Claim
from edgeveil.edge_runtime.sources.video_modes import (
    FORMATS,
    SIXTEEN_BITS,
    Mode,
    choose,
    modes,
    opened,
    read_options,
    set_controls,
)


class CameraSource(OpenCVCamera):
    """Colour or gray pictures of 8 bits, or 16 bits as the camera has them (Y16), at the bundle's size; where that has
    a ``fit``, at the nearest larger one."""

    schemes = ("camera",)
    forms = ("camera:0", "camera:/dev/video0", "camera:0?mode=1280x720&format=MJPG&fps=30&exposure=10&mains=50")
    help = (
        "USB or built-in camera by V4L2; 8 bits as gray or RGB, or 16 bits unchanged (Y16). Without `mode`: the "
        "bundle's size, with `fit` the nearest larger one; without `format`: YUYV if that reaches the bundle's ticks, "
        "else MJPG. `exposure` in ms or `auto`; `mains` 50, 60, `auto` or `off`, against flicker"
    )
    device_file = "/dev/video"
    options = {  # noqa: RUF012 - never written to
        "mode": "[1-9][0-9]{0,4}x[1-9][0-9]{0,4}",
        "format": "YUYV|MJPG",
        "fps": r"(?=.*[1-9])[0-9]{1,4}(\.[0-9]{1,2})?",
        "exposure": r"auto|(?=.*[1-9])[0-9]{1,4}(\.[0-9])?",
        "mains": "50|60|auto|off",
    }
    groups = ("group",)
    calls = "flock sysinfo uname"
    ioctls = 0x56  # the type of its commands: 'V' of linux/videodev2.h

    def __init__(self, where: str, spec: Sensor) -> None:
        need_image(spec, "a camera")
        place = where.partition("?")[0]
        self._options = read_options(options_of("camera:" + where))
        device = "/dev/video" + place if place.isdigit() else place
        if not os.path.isabs(device) or spec["dtype"] not in ("uint8", "uint16"):
            raise BadInput(
                "expected camera:0 or camera:/dev/video0 and a bundle for uint8 or uint16; got {!r} and {}".format(
                    "camera:" + where, spec["dtype"]
                )
            )
        self._forms = FORMATS if spec["dtype"] == "uint8" else (SIXTEEN_BITS,)
        if self._options.form not in (None, *self._forms):
            raise BadInput("expected no format= for a bundle of 16 bits, which takes Y16. Leave it out")
        if not os.path.exists(device):
            raise Disconnected("there is no camera at {}: plug it in, or see v4l2-ctl --list-devices".format(device))
        super(CameraSource, self).__init__("camera " + device, spec)
        self._device, self._cv2 = device, opencv()
        self._capture: Any = None
        self._claim = Claim(os.path.realpath(device))
        self._start(device)

    def _open(self, where: str) -> None:
        cv2, spec, options = self._cv2, self._spec, self._options
        height, width = spec["shape"][:2]
        width, height = options.mode or (width, height)
        mode = self._set(where, (width, height))
        number = where[len("/dev/video") :]
        self._capture = cv2.VideoCapture(int(number) if number.isdigit() else film_name(where), cv2.CAP_V4L2)
        if not self._capture.isOpened():
            raise Unsupported(
                "{} cannot be opened: another program may have it, or this user may not (group video)".format(self.name)
            )
        self._capture.set(cv2.CAP_PROP_BUFFERSIZE, 1)  # the newest picture only
        form = options.form if mode is None else mode.form
        if spec["dtype"] == "uint16":
            self._capture.set(cv2.CAP_PROP_CONVERT_RGB, 0)
            form = SIXTEEN_BITS
        if form is not None:
            self._capture.set(cv2.CAP_PROP_FOURCC, cv2.VideoWriter_fourcc(*form))
        self._capture.set(cv2.CAP_PROP_FRAME_HEIGHT, height if mode is None else mode.height)
        self._capture.set(cv2.CAP_PROP_FRAME_WIDTH, width if mode is None else mode.width)
        if options.fps is not None:
            self._capture.set(cv2.CAP_PROP_FPS, options.fps)
        fits(self._read(), spec, self.name)

    def _set(self, device: str, wanted: Tuple[int, int]) -> Optional[Mode]:
        """Set exposure and mains frequency, and choose the mode. Raises ``Unsupported``."""
        handle = opened(device)
        if handle is None:
            return None  # OpenCV says why
        try:
            set_controls(handle, self._options, self.name)
            offered = modes(handle, self._forms, wanted)
        finally:
            os.close(handle)
        fps = self._options.fps or self._spec.get("tick_hz") or 0.0
        return choose(offered, self._options, wanted, fps, larger=bool(self._spec.get("any_size")))

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
