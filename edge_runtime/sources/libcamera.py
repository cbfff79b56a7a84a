"""``libcamera:``: a camera on a Raspberry Pi's ribbon cable, by picamera2; OpenCV cannot open these."""

from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, Disconnected, Unsupported
from edgeveil.edge_runtime.sources.base import Camera, Sensor
from edgeveil.edge_runtime.sources.convert import need_image
from edgeveil.edge_runtime.sources.install_hints import Claim, load


class LibcameraSource(Camera):
    """RGB or gray uint8 at the bundle's size. ``libcamera:`` is the first camera, ``libcamera:1`` the second."""

    schemes = ("libcamera",)
    forms = ("libcamera:", "libcamera:1")
    help = "camera on a Raspberry Pi's ribbon cable, which OpenCV's wheels cannot open"
    needs = ("picamera2",)
    sensor = "camera"
    gives = "pictures of a camera"
    axes = 3
    bare = True
    devices = ("char-video4linux", "char-media", "char-dma_heap")
    groups = ("group",)
    writes_files = True  # in shared memory, which a limit on what a process may write covers

    def __init__(self, where: str, spec: Sensor) -> None:
        need_image(spec, "a camera")
        if (where and not where.isdigit()) or spec["dtype"] != "uint8":
            raise BadInput(
                "expected libcamera: or libcamera:1 and a bundle for uint8; got {!r} and {}".format(
                    "libcamera:" + where, spec["dtype"]
                )
            )
        super(LibcameraSource, self).__init__("libcamera {}".format(where or 0), spec)
        self._camera: Any = None
        self._shape = tuple(spec["shape"])
        self._make = load("picamera2", "cameras on the ribbon cable are read by picamera2", "picamera2").Picamera2
        self._claim = Claim(self.name)
        self._start(where)

    def _open(self, where: str) -> None:
        number, (height, width, channels) = int(where or 0), self._shape
        if len(self._make.global_camera_info()) <= number:
            raise Disconnected("there is no {}: see rpicam-hello --list-cameras".format(self.name))
        self._camera = self._make(number)
        # libcamera names formats by their bytes from the last to the first: BGR888 is red first.
        form = "BGR888" if channels == 3 else "YUV420"
        about = self._camera.create_video_configuration(main={"size": (width, height), "format": form}, queue=False)
        self._camera.configure(about)
        self._camera.start()
        self._read()

    def _read(self) -> np.ndarray:
        height, width, channels = self._shape
        picture = self._camera.capture_array("main")
        if channels == 1:
            picture = picture[:height, :, None]  # brightness; the rows of colour are below it
        # The hardware may pad rows.
        picture = np.ascontiguousarray(picture[:, :width, :channels])
        if picture.shape != self._shape:
            raise Unsupported(
                "{} gives {}; this bundle takes {}: the camera has no such size".format(
                    self.name, picture.shape, self._shape
                )
            )
        return picture

    def close(self) -> None:
        """Stop and release the camera."""
        if self._camera is not None:
            self._camera.stop()
            self._camera.close()
            self._camera = None
        self._claim.release()
