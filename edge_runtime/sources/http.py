"""``http://`` and ``https://``: cameras that send JPEG after JPEG (multipart/x-mixed-replace), or one for each request.

Not on-sensor: raw pictures travel over a network. The standard library reads them: it checks TLS certificates against
the system's authorities (FFmpeg does not by default), and only this process sees a password.
"""

import base64
import contextlib
import http.client
import socket
import ssl
from typing import Any, Iterator

import numpy as np

from edgeveil.edge_runtime import camera_address as addresses
from edgeveil.edge_runtime.errors import Disconnected, FrameDropped, Stalled, Unsupported
from edgeveil.edge_runtime.sources.base import STALL_S, Sensor
from edgeveil.edge_runtime.sources.convert import OpenCVCamera, decode, fits, need_image

MAX_JPEG_BYTES = 16 * 2**20
MAX_LINE = 1000
MAX_HEADERS = 50


class Pictures(object):
    """The JPEGs of a network camera, one after the other, as bytes, not decoded: ``next_jpeg``, ``close``.

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
        """Request the address and check the headers of the answer."""
        address = self._address
        if address.scheme == "https":
            self._connection = http.client.HTTPSConnection(
                address.host, address.port, timeout=STALL_S, context=ssl.create_default_context()
            )
        else:
            self._connection = http.client.HTTPConnection(address.host, address.port, timeout=STALL_S)
        headers = {"User-Agent": "edgeveil", "Accept": "multipart/x-mixed-replace, image/jpeg"}
        if address.user is not None:
            both = "{}:{}".format(address.user, address.password or "").encode("utf-8")
            headers["Authorization"] = "Basic " + base64.b64encode(both).decode("ascii")
        with self._own_errors():
            self._connection.request("GET", address.target, headers=headers)
            self._answer = self._connection.getresponse()
        status, kind = self._answer.status, (self._answer.getheader("Content-Type") or "").lower()
        if status in (401, 403):
            raise Unsupported("{} needs another name and password ({})".format(self.name, status))
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

    def next_jpeg(self) -> bytes:
        """The bytes of the next picture."""
        if self._stream:
            with self._own_errors():
                return self._read_part()
        if self._answer is None:
            self._connect()
        with self._own_errors():
            data = self._answer.read(MAX_JPEG_BYTES + 1)
        self._connection.close()
        self._answer = None  # the next one needs a new request
        if len(data) > MAX_JPEG_BYTES:
            raise FrameDropped("unreadable")
        return data

    def _read_part(self) -> bytes:
        """The body of the next part of a multipart answer."""
        for _ in range(MAX_HEADERS):
            line = self._read_line()
            if line.lower().startswith(self._boundary.lower()):
                break
        else:
            raise Unsupported("{} sends something other than parts of a stream".format(self.name))
        length = None
        for _ in range(MAX_HEADERS):
            line = self._read_line()
            if not line:
                break
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length" and value.strip().isdigit():
                length = int(value)
        if length is None or not 0 < length <= MAX_JPEG_BYTES:
            raise Unsupported("{} gives no length for its pictures, or more than the limit".format(self.name))
        data = self._answer.read(length)
        if len(data) != length:
            raise Disconnected("{} closed the connection in the middle of a picture".format(self.name))
        return data

    def _read_line(self) -> bytes:
        line = self._answer.readline(MAX_LINE)
        if not line:
            raise Disconnected("{} closed the connection".format(self.name))
        return line.strip()

    @contextlib.contextmanager
    def _own_errors(self) -> Iterator[None]:
        """Replace the library's errors, whose text may hold the address with its password."""
        try:
            yield
        except ssl.SSLError:
            raise Unsupported("{} has a certificate that this device does not trust".format(self.name)) from None
        except socket.timeout:
            raise Stalled("{} sent nothing for {:.0f} s".format(self.name, STALL_S)) from None
        except (OSError, http.client.HTTPException) as error:
            raise Disconnected("{} cannot be reached ({})".format(self.name, type(error).__name__)) from None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


class HttpSource(OpenCVCamera):
    """Gray or RGB uint8 pictures of a network camera at the bundle's size."""

    schemes = ("http",)
    forms = ("http://...", "https://...")
    help = "network camera with JPEGs, as a stream or one a request. Basic authentication"
    port = 80
    raw_on_network = True

    def __init__(self, place: str, spec: Sensor) -> None:
        need_image(spec, "a network camera")
        self._pictures = Pictures("{}:{}".format(self.schemes[0], place))
        super(HttpSource, self).__init__(self._pictures.name, spec)
        self._start(place)

    @classmethod
    def forward(cls, source: str, sensor: Sensor, pipe: Any, prepared: Any) -> None:  # noqa: ARG003
        """Send JPEGs as they come: the inside decodes them, where a decoder has no network to leak to."""
        pictures = Pictures(source)
        with contextlib.closing(pictures):
            pipe.jpegs(pictures.next_jpeg)

    def _open(self, where: str) -> None:  # noqa: ARG002 - its address was opened before
        self._ahead = self._read()
        fits(self._ahead, self._spec, self.name)

    def _read(self) -> np.ndarray:
        return decode(self._pictures.next_jpeg(), self._spec, self.name, first=self._next == 0)

    def close(self) -> None:
        """Close the connection."""
        self._pictures.close()


class HttpsSource(HttpSource):
    """The same over TLS; the certificate is checked."""

    schemes = ("https",)
    port = 443
    tls = True
