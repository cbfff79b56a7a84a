"""``video:FILE``: a film, read by OpenCV. For 16 bits use ``images:``: OpenCV decodes films to 8."""

import os
from typing import Optional

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, SourceFailed
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.late_imports import film_name, opencv
from edgeveil.edge_runtime.sources.base import Pace, Sensor, Source, now_ns
from edgeveil.edge_runtime.sources.convert import fit, fits, limit_decoder, need_image, need_stream_size
from edgeveil.edge_runtime.sources.images import FPS, SUFFIXES

ENDS_EARLY = 0.9  # share of the frames that a film declares; some declare a few too many


class VideoSource(Source):
    """Frames of a film in order, gray or RGB of 8 bits, numbered from 0; ``realtime`` at its own pace."""

    schemes = ("video",)
    forms = ("video:FILE",)
    help = "video of 8 bits"
    needs = ("opencv",)
    file = True
    recording = True
    devices = ()
    calls = "sysinfo uname"

    def __init__(self, path: str, spec: Sensor, *, realtime: bool = False, repeat: bool = False) -> None:
        need_image(spec, "a film")
        if path.lower().endswith(SUFFIXES):
            raise BadInput("expected a film; pictures, 16 bits among them, are read with images:DIR")
        if not os.path.isfile(path):
            raise BadInput("expected a film at {}; there is none".format(path))
        self._cv2, self._spec, self._path = opencv(), spec, path
        self.name = "video:" + path
        self._end_limit = limit_decoder(spec)
        try:
            self._begin(realtime=realtime, repeat=repeat)
        except BaseException:
            self._end_limit()
            raise

    def _begin(self, *, realtime: bool, repeat: bool) -> None:
        self._open()
        self.fps = self._film.get(self._cv2.CAP_PROP_FPS) or FPS
        count = int(self._film.get(self._cv2.CAP_PROP_FRAME_COUNT))
        self._count = count if count > 0 else None
        self.size = None if repeat else self._count
        self.live = realtime
        self._pace = Pace() if realtime else None
        self._repeat, self._next, self._place = repeat, 0, 0
        good, picture = self._film.read()
        if not good:
            raise BadInput("expected a film that OpenCV can read at {}; it finds no picture in it".format(self._path))
        self._ahead: Optional[np.ndarray] = fits(picture, self._spec, "the film")

    def _open(self) -> None:
        self._film = self._cv2.VideoCapture(film_name(self._path), self._cv2.CAP_FFMPEG)
        if not self._film.isOpened():
            raise BadInput("expected a film that OpenCV can read at {}; it is damaged or none".format(self._path))
        need_stream_size(self._film, self._spec, "the film")

    def next(self) -> Optional[RawFrame]:
        """The next frame, or None at the end. Raises ``SourceFailed`` where the film is cut short."""
        picture = self._ahead if self._ahead is not None else self._picture()
        self._ahead = None
        if picture is None:
            return None
        index, self._next, self._place = self._next, self._next + 1, self._place + 1
        if self._pace:
            self._pace.wait(index / self.fps)
        return RawFrame(picture, index, now_ns())

    def _picture(self) -> Optional[np.ndarray]:
        good, picture = self._film.read()
        if not good and self._count and self._place < ENDS_EARLY * self._count:
            raise SourceFailed("{} is damaged: it ends at frame {} of {}".format(self._path, self._place, self._count))
        if not good and self._repeat:
            # An isolated process may not be able to open it again; some films cannot be wound back.
            self._film.set(self._cv2.CAP_PROP_POS_FRAMES, 0)
            self._place = 0
            good, picture = self._film.read()
        if not good and self._repeat:
            self._film.release()
            self._open()
            good, picture = self._film.read()
        return fit(picture, self._spec) if good else None

    def close(self) -> None:
        """Close the file."""
        self._film.release()
        self._end_limit()
