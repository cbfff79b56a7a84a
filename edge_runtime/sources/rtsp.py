"""``rtsp://`` and ``rtsps://``: cameras on a network, read by OpenCV's FFmpeg.

Not on-sensor: raw pictures travel over a network. TLS is this process's own (``tls_tunnel``).
"""

import contextlib
import os
from typing import Any, Optional
from urllib.parse import quote

import numpy as np

from edgeveil.edge_runtime import camera_address as addresses
from edgeveil.edge_runtime.errors import Disconnected, Missing
from edgeveil.edge_runtime.opencv import opencv
from edgeveil.edge_runtime.sources.base import STALL_S, Sensor
from edgeveil.edge_runtime.sources.convert import OpenCVCamera, fits, limit_decoder, need_image, need_stream_size
from edgeveil.edge_runtime.sources.tls_tunnel import TlsTunnel

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

    schemes = ("rtsp",)
    forms = ("rtsp://...", "rtsps://...")
    help = "network camera. TLS is checked by Python; the camera sees a request for 127.0.0.1"
    needs = "OpenCV's FFmpeg"
    port = 554
    raw_on_network = True

    def __init__(self, where: str, spec: Sensor) -> None:
        need_image(spec, "a network camera")
        address = addresses.parse("{}:{}".format(self.schemes[0], where))
        super(RtspSource, self).__init__(address.shown, spec)
        self._stream: Any = None
        self._end_limit = limit_decoder(spec)
        self._start(_with_credentials(self._called(address)))

    @classmethod
    def prepare(cls, source: str) -> Optional[TlsTunnel]:  # noqa: ARG003
        """Load OpenCV."""
        with contextlib.suppress(Missing):  # the first picture that needs it says so
            load()
        return None

    def _called(self, address: addresses.Address) -> addresses.Address:
        """The address that FFmpeg calls."""
        return address

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


class RtspsSource(RtspSource):
    """The same over TLS, whose certificate is checked against the system's authorities.

    ``tunnel`` is one that listens already, for this address; None: a new one.
    """

    schemes = ("rtsps",)
    port = 322
    tls = True

    def __init__(self, where: str, spec: Sensor, *, tunnel: Optional[TlsTunnel] = None) -> None:
        self._tunnel, self._own_tunnel = tunnel, tunnel is None
        super(RtspsSource, self).__init__(where, spec)

    @classmethod
    def prepare(cls, source: str) -> Optional[TlsTunnel]:
        """Load OpenCV, and listen: later this process may not."""
        super(RtspsSource, cls).prepare(source)
        return TlsTunnel(addresses.parse(source))

    @classmethod
    def forward(cls, source: str, sensor: Sensor, pipe: Any, prepared: Any) -> None:
        """Send its pictures, through the tunnel ``prepared``."""
        with cls(source.partition(":")[2], sensor, tunnel=prepared) as opened:
            pipe.samples(opened)

    def _called(self, address: addresses.Address) -> addresses.Address:
        if self._tunnel is None:
            self._tunnel = TlsTunnel(address)
        return address._replace(host="127.0.0.1", port=self._tunnel.port)

    def _open(self, where: str) -> None:
        if self._tunnel is not None:
            self._tunnel.open()
        super(RtspsSource, self)._open(where)

    def close(self) -> None:
        """Close the connection."""
        super(RtspsSource, self).close()
        if self._tunnel is not None:
            (self._tunnel.end if self._own_tunnel else self._tunnel.close)()


def _with_credentials(address: addresses.Address) -> str:
    """The URL for FFmpeg, name and password quoted."""
    who = ""
    if address.user is not None:
        who = "{}:{}@".format(quote(address.user, safe=""), quote(address.password or "", safe=""))
    host = "[{}]".format(address.host) if ":" in address.host else address.host
    return "rtsp://{}{}:{}{}".format(who, host, address.port, address.target)
