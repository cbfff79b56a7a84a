"""``http://`` and ``https://``: cameras that send JPEG after JPEG (multipart/x-mixed-replace), or one for each request.

Not on-sensor: raw pictures travel over a network. Read with the standard library, so that TLS is checked against the
system's authorities (FFmpeg does not by default) and only this process sees a password.
"""

import base64
import http.client
import socket
import ssl
from typing import Any, Callable, Dict

import numpy as np

from edgeveil.edge_runtime import camera_address as addresses
from edgeveil.edge_runtime.errors import Disconnected, FrameDropped, SourceFailed, Stalled, Unsupported
from edgeveil.edge_runtime.opencv import opencv
from edgeveil.edge_runtime.sources.base import STALL_S, Sensor
from edgeveil.edge_runtime.sources.convert import OpenCVCamera, fits, need_image

MAX_JPEG_BYTES = 16 * 2**20
MAX_LINE = 1000
MAX_HEADERS = 50


class Pictures(object):
    """The JPEGs of a network camera, one after the other, as bytes that nothing here decodes: ``next_jpeg``, ``close``.

    ``name`` is its address without credentials. Raises as a source does.
    """

    def __init__(self, text: str) -> None:
        self._address = addresses.parse(text)
        self.name = self._address.shown
        self._connection: Any = None
        self._answer: Any = None
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        """Ask for the address; what it answers is looked at before a picture is."""
        address = self._address
        if address.scheme == "https":
            connection: Any = http.client.HTTPSConnection(
                address.host, address.port, timeout=STALL_S, context=ssl.create_default_context()
            )
        else:
            connection = http.client.HTTPConnection(address.host, address.port, timeout=STALL_S)
        self._connection = connection
        headers = {"User-Agent": "edgeveil", "Accept": "multipart/x-mixed-replace, image/jpeg"}
        if address.user is not None:
            both = "{}:{}".format(address.user, address.password or "").encode("utf-8")
            headers["Authorization"] = "Basic " + base64.b64encode(both).decode("ascii")
        self._answer = self._call(lambda: self._ask(connection, address.target, headers))
        status, kind = self._answer.status, (self._answer.getheader("Content-Type") or "").lower()
        if status in (401, 403):
            raise Unsupported("{} asks for another name and password ({})".format(self.name, status))
        if status != 200:
            raise Disconnected("{} answers {}: expected a stream of pictures".format(self.name, status))
        self._stream = kind.startswith("multipart/x-mixed-replace")
        if not self._stream and not kind.startswith("image/jpeg"):
            raise Unsupported(
                "{} sends no JPEG pictures (multipart/x-mixed-replace or image/jpeg): "
                "look for another address of this camera".format(self.name)
            )
        if self._stream:
            value = kind.partition("boundary=")[2].split(";")[0].strip().strip('"')
            self._boundary = (value if value.startswith("--") else "--" + value).encode("ascii", "replace")

    @staticmethod
    def _ask(connection: Any, target: str, headers: Dict[str, str]) -> Any:
        connection.request("GET", target, headers=headers)
        return connection.getresponse()

    def next_jpeg(self) -> bytes:
        """The bytes of the next picture."""
        if self._stream:
            return self._call(self._read_part)
        if self._answer is None:
            self._connect()
        data = self._call(lambda: self._answer.read(MAX_JPEG_BYTES + 1))
        self._connection.close()
        self._answer = None  # the next one needs a new request
        if len(data) > MAX_JPEG_BYTES:
            raise FrameDropped("unreadable")
        return data

    def _read_part(self) -> bytes:
        """The body of the next part of a multipart answer."""
        answer = self._answer
        for _ in range(MAX_HEADERS):
            line = self._read_line()
            if line.lower().startswith(self._boundary.lower()):
                break
        else:
            raise Unsupported("{} sends something else than parts of a stream".format(self.name))
        length = None
        for _ in range(MAX_HEADERS):
            line = self._read_line()
            if not line:
                break
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length" and value.strip().isdigit():
                length = int(value)
        if length is None or not 0 < length <= MAX_JPEG_BYTES:
            raise Unsupported("{} does not say how long its pictures are, or too long".format(self.name))
        data = answer.read(length)
        if len(data) != length:
            raise Disconnected("{} closed the connection in the middle of a picture".format(self.name))
        return data

    def _read_line(self) -> bytes:
        line = self._answer.readline(MAX_LINE)
        if not line:
            raise Disconnected("{} closed the connection".format(self.name))
        return line.strip()

    def _call(self, call: Callable[[], Any]) -> Any:
        """What ``call`` returns; its errors as ours, with none of their words, which may hold the address."""
        failed: SourceFailed
        try:
            return call()
        except ssl.SSLError:
            failed = Unsupported("{} has a certificate that this device does not trust".format(self.name))
        except socket.timeout:
            failed = Stalled("{} sent nothing for {:.0f} s".format(self.name, STALL_S))
        except (OSError, http.client.HTTPException) as error:
            failed = Disconnected("{} cannot be reached ({})".format(self.name, type(error).__name__))
        raise failed

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


class HttpSource(OpenCVCamera):
    """Gray or RGB uint8 pictures of a network camera at the bundle's size."""

    raw_on_network = True
    scheme = "http"

    def __init__(self, place: str, spec: Sensor) -> None:
        need_image(spec, "a network camera")
        self._pictures = Pictures("{}:{}".format(self.scheme, place))
        super(HttpSource, self).__init__(self._pictures.name, spec)
        self._start(place)

    def _open(self, where: str) -> None:  # noqa: ARG002 - its address was opened before
        self._ahead = self._read()
        fits(self._ahead, self._spec, self.name)

    def _read(self) -> np.ndarray:
        return decode(self._pictures.next_jpeg())

    def close(self) -> None:
        """Close the connection."""
        self._pictures.close()


def decode(data: bytes) -> np.ndarray:
    """The picture of a JPEG's bytes; raises ``FrameDropped`` where they are none."""
    cv2 = opencv()
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED) if data else None
    if picture is None:
        raise FrameDropped("unreadable")
    return picture


class HttpsSource(HttpSource):
    """The same over TLS; the certificate is checked."""

    scheme = "https"
