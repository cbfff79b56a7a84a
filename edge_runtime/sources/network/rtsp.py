"""``rtsp://``: cameras on a network, read by OpenCV's FFmpeg. Not on-sensor: raw pictures travel over a network."""

import os
from typing import Any, Optional
from urllib.parse import quote

import numpy as np

from edgeveil.edge_runtime import camera_address as addresses
from edgeveil.edge_runtime.errors import Disconnected
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.opencv import opencv
from edgeveil.edge_runtime.sources.base import STALL_S, Freshness, Sensor, Source, now_ns
from edgeveil.edge_runtime.sources.convert import fit, fits, need_image

QUIET = {
    "OPENCV_FFMPEG_LOGLEVEL": "-8",  # FFmpeg's own messages may hold the address, and with it the password
    "OPENCV_LOG_LEVEL": "SILENT",
    "OPENCV_FFMPEG_CAPTURE_OPTIONS": "rtsp_transport;tcp",  # lost packets would be half pictures
}


class RtspSource(Source):
    """Gray or RGB uint8 pictures at the bundle's size. A broken connection is reported after 5 s."""

    live = True
    raw_on_network = True

    def __init__(self, where: str, spec: Sensor, freshness: Optional[Freshness] = None) -> None:
        need_image(spec, "a network camera")
        text = "rtsp:" + where
        address = addresses.parse(text)
        self.name = address.shown
        os.environ.update(QUIET)  # before OpenCV reads them
        self._cv2, self._spec, self._next = opencv(), spec, 0
        self._fresh = freshness or Freshness(self.name)
        self._stream = self._open(_with_credentials(address))
        try:
            if not self._stream.isOpened():
                raise Disconnected(
                    "{} cannot be opened: no camera there, or another name and password".format(self.name)
                )
            self._ahead: Optional[np.ndarray] = fits(self._read(), spec, self.name, self._cv2)
        except BaseException:
            self.close()
            raise

    def _open(self, url: str) -> Any:
        cv2 = self._cv2
        if hasattr(cv2, "setLogLevel"):
            cv2.setLogLevel(0)
        if not hasattr(cv2, "CAP_PROP_OPEN_TIMEOUT_MSEC"):
            return cv2.VideoCapture(url, cv2.CAP_FFMPEG)  # before 4.5.2: FFmpeg's own 30 s
        limit = int(STALL_S * 1000)
        options = [cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, limit, cv2.CAP_PROP_READ_TIMEOUT_MSEC, limit]
        return cv2.VideoCapture(url, cv2.CAP_FFMPEG, options)

    def next(self) -> Optional[RawFrame]:
        """The next picture."""
        if self._ahead is not None:
            picture, self._ahead = self._ahead, None
        else:
            picture = fit(self._read(), self._spec, self._cv2)
        taken = now_ns()
        self._fresh.check(picture)
        index, self._next = self._next, self._next + 1
        return RawFrame(picture, index, taken)

    def _read(self) -> np.ndarray:
        good, picture = self._stream.read()
        if not good:
            raise Disconnected("{} sends no pictures any more".format(self.name))
        return picture

    def close(self) -> None:
        """Close the connection."""
        self._stream.release()


def _with_credentials(address: addresses.Address) -> str:
    """The URL that FFmpeg is given; what was left unquoted is quoted."""
    who = ""
    if address.user is not None:
        who = "{}:{}@".format(quote(address.user, safe=""), quote(address.password or "", safe=""))
    host = "[{}]".format(address.host) if ":" in address.host else address.host
    return "rtsp://{}{}:{}{}".format(who, host, address.port, address.target)
