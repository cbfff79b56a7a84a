"""``rtsp://`` and ``rtsps://``: cameras on a network, read by OpenCV's FFmpeg.

Not on-sensor: raw pictures travel over a network. For ``rtsps://`` the certificate is checked here, by Python, and the
bytes go on to FFmpeg over the loopback. FFmpeg checks certificates only with an option, whose name differs by version
and TLS library; a build without it connects unchecked. So FFmpeg speaks plain RTSP to a socket of this process.
"""

import contextlib
import os
import select
import socket
import ssl
import threading
from typing import Any, Optional
from urllib.parse import quote

import numpy as np

from edgeveil.edge_runtime import camera_address as addresses
from edgeveil.edge_runtime.camera_address import Address
from edgeveil.edge_runtime.errors import Disconnected, Missing, Stalled, Unsupported
from edgeveil.edge_runtime.late_imports import opencv
from edgeveil.edge_runtime.sources.base import STALL_S, Sensor
from edgeveil.edge_runtime.sources.convert import OpenCVCamera, fits, limit_decoder, need_image, need_stream_size

_CHUNK = 1 << 16


class TlsTunnel(object):
    """Listens on ``port`` of the loopback; ``open`` connects to the camera and hands the next caller there through.

    It may be opened again and again. Listening begins here, so that a process can forbid itself to listen later.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen(1)
        self._listening.settimeout(STALL_S)
        self.port = int(self._listening.getsockname()[1])
        self._context = ssl.create_default_context()
        self._far: Any = None

    def open(self) -> None:
        """Connect to the camera and check its certificate. Raises ``Disconnected``, ``Stalled`` or ``Unsupported``."""
        self.close()
        name, host = self._address.shown, self._address.host
        try:
            plain = socket.create_connection((host, self._address.port), timeout=STALL_S)
            try:
                self._far = self._context.wrap_socket(plain, server_hostname=host)
            except BaseException:
                plain.close()
                raise
        except ssl.CertificateError:
            raise Unsupported("{} has a certificate that this device does not trust".format(name)) from None
        except ssl.SSLError:
            raise Unsupported(
                "{} does not answer with TLS, or has a certificate that this device does not trust".format(name)
            ) from None
        except socket.timeout:
            raise Stalled("{} sent nothing for {:.0f} s".format(name, STALL_S)) from None
        except OSError as error:
            raise Disconnected("{} cannot be reached ({})".format(name, type(error).__name__)) from None
        threading.Thread(target=self._carry, args=(self._far,), daemon=True).start()

    def _carry(self, far: Any) -> None:
        near: Any = None
        try:
            near, _ = self._listening.accept()
            near.settimeout(STALL_S)
            far.setblocking(False)  # a message of TLS's own makes it readable, and has no byte for the reader
            while _from_camera(far, near) and _to_camera(near, far):
                if not far.pending():
                    select.select([far, near], [], [], STALL_S)
        except (OSError, ValueError):
            pass  # closed, here or there: the reader of ``near`` gets an end
        finally:
            for one in (near, far):
                if one is not None:
                    one.close()

    def close(self) -> None:
        """End the connection, if there is one; the port stays."""
        if self._far is not None:
            with contextlib.suppress(OSError):
                self._far.shutdown(socket.SHUT_RDWR)  # wakes the thread, which closes it
            self._far = None

    def end(self) -> None:
        """End the connection and stop listening."""
        self.close()
        self._listening.close()


def _from_camera(far: Any, near: Any) -> bool:
    """Hand on what has come; returns whether there may be more."""
    try:
        data = far.recv(_CHUNK)
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return True
    near.sendall(data)
    return bool(data)


def _to_camera(near: Any, far: Any) -> bool:
    if not select.select([near], [], [], 0)[0]:
        return True
    data = near.recv(_CHUNK)
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[far.send(rest) :]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not select.select([], [far], [], STALL_S)[1]:
                return False
    return bool(data)


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
    needs = ("opencv",)
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
