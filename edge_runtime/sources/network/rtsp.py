"""``rtsp://``: cameras on a network, read by OpenCV's FFmpeg. Not on-sensor: raw pictures travel over a network."""

import os
from typing import Any
from urllib.parse import quote

import numpy as np

from edgeveil.edge_runtime import camera_address as addresses
from edgeveil.edge_runtime.errors import Disconnected
from edgeveil.edge_runtime.opencv import opencv
from edgeveil.edge_runtime.sources.base import STALL_S, Sensor
from edgeveil.edge_runtime.sources.convert import OpenCVCamera, fits, limit_decoder, need_image, need_stream_size

QUIET = {
    "OPENCV_FFMPEG_LOGLEVEL": "-8",  # FFmpeg's own messages may hold the address, and with it the password
    "OPENCV_LOG_LEVEL": "SILENT",
    "OPENCV_FFMPEG_CAPTURE_OPTIONS": "rtsp_transport;tcp",  # lost packets would be half pictures
}


def load() -> Any:
    """OpenCV, told to be quiet before it reads how."""
    os.environ.update(QUIET)
    return opencv()


class RtspSource(OpenCVCamera):
    """Gray or RGB uint8 pictures at the bundle's size. A broken connection is reported after 5 s."""

    raw_on_network = True

    def __init__(self, where: str, spec: Sensor) -> None:
        need_image(spec, "a network camera")
        address = addresses.parse("rtsp:" + where)
        super(RtspSource, self).__init__(address.shown, spec)
        self._stream: Any = None
        self._end_limit = limit_decoder(spec)
        self._start(_with_credentials(address))

    def _open(self, where: str) -> None:
        cv2 = load()
        if hasattr(cv2, "setLogLevel"):
            cv2.setLogLevel(0)
        options = []
        if hasattr(cv2, "CAP_PROP_OPEN_TIMEOUT_MSEC"):  # before 4.5.2: FFmpeg's own 30 s
            limit = int(STALL_S * 1000)
            options = [[cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, limit, cv2.CAP_PROP_READ_TIMEOUT_MSEC, limit]]
        self._stream = cv2.VideoCapture(where, cv2.CAP_FFMPEG, *options)
        if not self._stream.isOpened():
            raise Disconnected("{} cannot be opened: no camera there, or another name and password".format(self.name))
        need_stream_size(self._stream, self._spec, self.name)
        self._ahead = self._read()
        fits(self._ahead, self._spec, self.name)

    def _read(self) -> np.ndarray:
        good, picture = self._stream.read()
        if not good:
            raise Disconnected("{} sends no pictures any more".format(self.name))
        return picture

    def close(self) -> None:
        """Close the connection."""
        if self._stream is not None:
            self._stream.release()
        self._end_limit()


def _with_credentials(address: addresses.Address) -> str:
    """The URL for FFmpeg, name and password quoted."""
    who = ""
    if address.user is not None:
        who = "{}:{}@".format(quote(address.user, safe=""), quote(address.password or "", safe=""))
    host = "[{}]".format(address.host) if ":" in address.host else address.host
    return "rtsp://{}{}:{}{}".format(who, host, address.port, address.target)
