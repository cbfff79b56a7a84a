"""``video:FILE.avi``: the frames as a film, written by OpenCV; it appears when it is closed and whole."""

import contextlib
import os
from typing import List

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.frames import PerturbedFrame
from edgeveil.edge_runtime.late_imports import film_name, opencv
from edgeveil.edge_runtime.manifest.manifest import Output
from edgeveil.edge_runtime.sinks.base import Sink, abandon
from edgeveil.edge_runtime.sinks.uri import Known
from edgeveil.edge_runtime.util import atomic
from edgeveil.edge_runtime.util.atomic import WriteFailed, atomic_path, file_place, writing

CODECS = ("FFV1", "MJPG")


def codec(text: str) -> str:
    """FFV1 is lossless, MJPG is smaller and is not; raises ``BadInput``."""
    if text not in CODECS:
        raise BadInput("expected codec={}; got {!r}".format(" or codec=".join(CODECS), text))
    return text


def rate(text: str) -> float:
    """Frames a second; raises ``BadInput``."""
    try:
        fps = float(text)
    except ValueError:
        fps = 0.0
    if not 0.01 <= fps <= 1000.0:
        raise BadInput("expected frames a second as fps=10; got {!r}".format(text))
    return fps


class VideoSink(Sink):
    """The output called ``frame`` of bundles that give uint8 images, gray or RGB, of even height and width."""

    schemes = ("video",)
    forms = ("video:FILE.avi",)
    help = "8-bit images of even height and width; `codec=FFV1` (lossless, default) or `codec=MJPG`; `fps=10`"
    needs = ("opencv",)
    file = True
    part = ".avi"
    options: Known = {"fps": rate, "codec": codec}  # noqa: RUF012 - never written to

    def __init__(self, path: str, outputs: List[Output], *, fps: float = 10.0, codec: str = "FFV1") -> None:
        frames = [o for o in outputs if o.kind == "frame" and o.dtype == "uint8" and len(o.shape) == 3]
        if not frames or frames[0].shape[2] not in (1, 3):
            raise BadInput("this bundle has no output of 8-bit gray or RGB images: use npz:FILE")
        height, width, channels = frames[0].shape
        if height % 2 or width % 2:
            # The codecs would silently cut off a row or column.
            raise BadInput(
                "a video has an even height and width, and this bundle gives {} x {}: use images:DIR".format(
                    height, width
                )
            )
        if not path.lower().endswith(".avi") or not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise BadInput("expected a name ending in .avi in a folder that exists; got {}".format(path))
        self._cv2 = opencv()
        for name in (
            path,
            file_place(path),
        ):  # of the temporary file, which has the name of one and the folder of the other
            film_name(name)
        self._name, self._path, self._count = frames[0].name, path, 0
        self._frame_bytes = height * width * channels
        atomic.require(path, self._frame_bytes)
        self._whole = contextlib.ExitStack()
        self._temporary = self._whole.enter_context(atomic_path(path, keep_old=True))
        self._writer = self._cv2.VideoWriter(
            self._temporary,
            self._cv2.CAP_FFMPEG,
            self._cv2.VideoWriter_fourcc(*codec),
            fps,
            (width, height),
            channels == 3,
        )
        if not self._writer.isOpened():
            self.discard()
            raise BadInput("this OpenCV writes no {} video: use images:DIR, or opencv-python-headless".format(codec))

    def _write(self, frame: PerturbedFrame) -> None:
        atomic.require(self._path, self._frame_bytes)
        picture = frame.outputs[self._name]
        if picture.shape[2] == 3:
            picture = picture[:, :, ::-1]
        self._writer.write(np.ascontiguousarray(picture))
        self._count += 1

    def close(self) -> None:
        """Give the film its name if every frame is in it; else remove it and raise ``WriteFailed``."""
        self._writer.release()
        # OpenCV does not report a full disk: the frames in the file are counted.
        reader = self._cv2.VideoCapture(self._temporary, self._cv2.CAP_FFMPEG)
        frame_count = int(reader.get(self._cv2.CAP_PROP_FRAME_COUNT)) if reader.isOpened() else 0
        reader.release()
        if frame_count != self._count:
            self.discard()
            raise WriteFailed(
                "cannot write {}: {} of {} frames are in it; check the disk, or choose another place. Nothing was "
                "left half-written.".format(self._path, max(frame_count, 0), self._count)
            )
        with writing(self._path):
            self._whole.close()

    def discard(self) -> None:
        """Remove the film."""
        self._writer.release()
        abandon(self._whole)
