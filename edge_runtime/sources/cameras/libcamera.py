"""``libcamera:``: a camera on a Raspberry Pi's ribbon cable, by picamera2; plain OpenCV cannot open these."""

from typing import Any, Optional

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, Disconnected, Unsupported
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.sources.base import Freshness, Sensor, Source, now_ns
from edgeveil.edge_runtime.sources.cameras.install_hints import load
from edgeveil.edge_runtime.sources.cameras.lock import Claim
from edgeveil.edge_runtime.sources.convert import need_image


class LibcameraSource(Source):
    """RGB or gray uint8 at the bundle's size. ``libcamera:`` is the first camera, ``libcamera:1`` the second."""

    live = True

    def __init__(self, where: str, spec: Sensor, freshness: Optional[Freshness] = None) -> None:
        need_image(spec, "a camera")
        if (where and not where.isdigit()) or spec["dtype"] != "uint8":
            raise BadInput(
                "expected libcamera: or libcamera:1 and a bundle for uint8; got {!r} and {}".format(
                    "libcamera:" + where, spec["dtype"]
                )
            )
        module = load("picamera2", "cameras on the ribbon cable are read by picamera2", "picamera2")
        number = int(where or 0)
        self.name = "libcamera {}".format(number)
        self._fresh, self._next = freshness or Freshness(self.name), 0
        self._camera: Any = None
        self._shape = height, width, channels = tuple(spec["shape"])
        self._claim = Claim(self.name)
        try:
            if len(module.Picamera2.global_camera_info()) <= number:
                raise Disconnected("there is no {}: see rpicam-hello --list-cameras".format(self.name))
            self._camera = module.Picamera2(number)
            # libcamera names formats by their bytes from the last to the first: BGR888 is red first.
            form = "BGR888" if channels == 3 else "YUV420"
            about = self._camera.create_video_configuration(main={"size": (width, height), "format": form}, queue=False)
            self._camera.configure(about)
            self._camera.start()
            self._read()
        except BaseException:
            self.close()
            raise

    def next(self) -> Optional[RawFrame]:
        """The next picture."""
        picture, taken = self._read(), now_ns()
        self._fresh.check(picture)
        index, self._next = self._next, self._next + 1
        return RawFrame(picture, index, taken)

    def _read(self) -> np.ndarray:
        height, width, channels = self._shape
        picture = self._camera.capture_array("main")
        if channels == 1:
            picture = picture[:height, :, None]  # brightness; colour lies below it
        # Rows may be padded to what the hardware likes.
        picture = np.ascontiguousarray(picture[:, :width, :channels])
        if picture.shape != self._shape:
            raise Unsupported(
                "{} gives {}; this bundle takes {}: the camera has no such size".format(
                    self.name, picture.shape, self._shape
                )
            )
        return picture

    def close(self) -> None:
        """Stop the camera and let it go."""
        if self._camera is not None:
            self._camera.stop()
            self._camera.close()
            self._camera = None
        self._claim.release()
