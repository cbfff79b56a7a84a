"""``http://`` and ``https://``: cameras that send JPEG after JPEG (multipart/x-mixed-replace), or one for each request.

Not on-sensor: raw pictures travel over a network. The standard library reads them: it checks TLS certificates against
the system's authorities (FFmpeg does not by default), and only this process sees a password.
"""

import base64
import contextlib
import hashlib
import http.client
import os
import re
import socket
import ssl
import time
from typing import Any, Dict, Iterable, Iterator, Mapping, Optional
from urllib.parse import urljoin, urlsplit
from urllib.request import parse_http_list

import numpy as np

from edgeveil.edge_runtime import camera_address as addresses
from edgeveil.edge_runtime.errors import Disconnected, FrameDropped, Stalled, Unsupported
from edgeveil.edge_runtime.sources.base import STALL_S, Sensor
from edgeveil.edge_runtime.sources.convert import OpenCVCamera, decode, fits, need_image

MAX_JPEG_BYTES = 16 * 2**20
MAX_LINE = 1000
MAX_HEADERS = 50
MAX_EMPTY = 50  # parts without a byte, one after the other
START = b"\xff\xd8\xff"  # of a JPEG
CHUNK = 2**16  # bytes to read at a time
TICK_HZ = 10.0  # of a camera that gives one picture a request, for a bundle without a sensor of its own
MOVED = (301, 302, 303, 307, 308)
HASHES = {
    name + more: made for name, made in (("MD5", hashlib.md5), ("SHA-256", hashlib.sha256)) for more in ("", "-SESS")
}  # MD5 is what cameras offer; a login by it is no weaker than Basic


class Pictures(object):
    """The JPEGs of a network camera, one after the other, as bytes, not decoded: ``next_jpeg``, ``close``.

    ``name`` is its address without credentials. A camera that gives one picture a request is asked ``tick_hz`` times a
    second at most. Raises as a source does.
    """

    _rest = b""  # what came beyond the last line or picture
    _given = False  # whether it gave a picture

    def __init__(self, text: str, tick_hz: Optional[float] = None) -> None:
        self._address = addresses.parse(text)
        self.name = self._address.shown
        self._connection: Any = None
        self._answer: Any = None
        self._challenge: Optional[Dict[str, str]] = None  # of the camera's login; {}: Basic
        self._logins = 0  # with this challenge
        self._period_s, self._due_s = 1 / (tick_hz or TICK_HZ), time.monotonic()
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        """Request the address and check the headers of the answer."""
        self._rest = b""
        target, moved, was_challenged = self._address.target, False, False
        while True:
            with self._own_errors():
                self._request(target)
            status = self._answer.status
            if status in MOVED and not moved:
                with self._own_errors():
                    target, moved = self._target_of(self._answer.getheader("Location") or ""), True
            elif status == 401 and self._address.user is not None and not was_challenged:
                was_challenged, self._logins = True, 0  # a nonce that is used up is answered by another
                self._challenge = _challenge(self._answer.headers.get_all("WWW-Authenticate") or ())
            else:
                break
        if status in (401, 403):
            raise Unsupported("{} needs another name and password ({})".format(self.name, status))
        if status != 200:
            raise Disconnected("{} answers {}: expected a stream of pictures".format(self.name, status))
        kind = self._answer.getheader("Content-Type") or ""
        boundary = re.match(r'(?i)multipart/x-mixed-replace\b.*?;\s*boundary\s*=\s*"?([^";]+)', kind)
        with self._own_errors():  # some call a picture "image/jpg", a stream, or nothing: its bytes say what it is
            self._fill(once=True)
        self._stream = boundary is not None and not self._rest.startswith(START)
        if boundary is not None and self._stream:
            value = boundary.group(1).strip().lower()
            self._boundary = (value if value.startswith("--") else "--" + value).encode("ascii", "replace")
        elif not self._rest.startswith(START) and self._given:
            self._answer = None
            raise FrameDropped("unreadable")  # it is busy, and may say so in words
        elif not self._rest.startswith(START):
            raise (Unsupported if self._rest else Disconnected)(
                "{} sends no JPEG pictures (multipart/x-mixed-replace or image/jpeg): "
                "look for another address of this camera".format(self.name)
            )

    def _request(self, target: str) -> None:
        address = self._address
        self.close()
        if address.scheme == "https":
            self._connection = http.client.HTTPSConnection(
                address.host, address.port, timeout=STALL_S, context=ssl.create_default_context()
            )
        else:
            self._connection = http.client.HTTPConnection(address.host, address.port, timeout=STALL_S)
        headers = {"User-Agent": "edgeveil", "Accept": "multipart/x-mixed-replace, image/jpeg"}
        if self._challenge is not None:
            self._logins += 1
            headers["Authorization"] = _login(self._challenge, address, target, self._logins)
        self._connection.request("GET", target, headers=headers)
        self._answer = self._connection.getresponse()

    def _target_of(self, location: str) -> str:
        """The target of a redirect within the host. Raises ``Unsupported`` for one to elsewhere."""
        here = "{}://{}:{}{}".format(self._address.scheme, self._address.host, self._address.port, self._address.target)
        parts = urlsplit(urljoin(here, location))
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        if (parts.scheme, parts.hostname, port) != (self._address.scheme, self._address.host, self._address.port):
            raise Unsupported("{} redirects to another host or port: give the address there".format(self.name))
        return (parts.path or "/") + ("?" + parts.query if parts.query else "")

    def next_jpeg(self) -> bytes:
        """The bytes of the next picture."""
        data = b""
        if self._stream:
            with self._own_errors():
                for _ in range(MAX_EMPTY):
                    data = data or self._read_part()
        else:
            if self._answer is None:
                time.sleep(max(0.0, self._due_s - time.monotonic()))
                self._connect()
            self._due_s = max(self._due_s, time.monotonic()) + self._period_s
            with self._own_errors():
                data = self._rest + self._answer.read(max(0, MAX_JPEG_BYTES + 1 - len(self._rest)))
            self._connection.close()
            self._answer = None  # the next one needs a new request
            if len(data) > MAX_JPEG_BYTES:
                raise FrameDropped("unreadable")
        self._given = True
        return data

    def _read_part(self) -> bytes:
        """The body of the next part of a multipart answer: as long as it says, or up to the next boundary.

        What comes before the boundary is passed over: some send the first part without one.
        """
        self._read_until(self._boundary)
        self._read_line()
        length = None
        for _ in range(MAX_HEADERS):
            line = self._read_line()
            if not line:
                break
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length" and value.strip().isdigit():
                length = int(value)
        if length is None:
            return self._read_until(self._boundary).rstrip(b"\r\n")
        if length > MAX_JPEG_BYTES:
            raise Unsupported("{} sends pictures of more bytes than the limit".format(self.name))
        while len(self._rest) < length:
            self._fill("in the middle of a picture")
        data, self._rest = self._rest[:length], self._rest[length:]
        return data

    def _read_until(self, mark: bytes) -> bytes:
        """All bytes before ``mark``, which is left to be read."""
        looked = 0
        while True:
            at = self._rest[: 2 * len(mark)].lower().find(mark)  # most often it is at the begin of much
            if at < 0:
                at = self._rest[looked:].lower().find(mark) + looked
            if at >= looked:
                data, self._rest = self._rest[:at], self._rest[at:]
                return data
            if len(self._rest) > MAX_JPEG_BYTES:
                raise Unsupported("{} sends too much without the boundary that it names".format(self.name))
            looked = max(0, len(self._rest) - len(mark))
            self._fill()

    def _read_line(self) -> bytes:
        while b"\n" not in self._rest[:MAX_LINE]:
            if len(self._rest) >= MAX_LINE:
                line, self._rest = self._rest[:MAX_LINE], self._rest[MAX_LINE:]
                return line
            self._fill()
        line, _, self._rest = self._rest.partition(b"\n")
        return line.strip()

    def _fill(self, when: str = "", *, once: bool = False) -> None:
        """Read what has come, at least a byte; ``once``: maybe none."""
        data = self._answer.read1(CHUNK)
        if not data and not once:
            raise Disconnected("{} closed the connection {}".format(self.name, when).strip())
        self._rest += data

    @contextlib.contextmanager
    def _own_errors(self) -> Iterator[None]:
        """Replace the library's errors, whose text may hold the address with its password."""
        try:
            yield
        except ssl.SSLError:
            raise Unsupported("{} has a certificate that this device does not trust".format(self.name)) from None
        except socket.timeout:
            raise Stalled("{} sent nothing for {:.0f} s".format(self.name, STALL_S)) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Disconnected("{} cannot be reached ({})".format(self.name, type(error).__name__)) from None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


# How a camera wants name and password: RFC 7617 (Basic) or 7616 (Digest, which sends no password).


def _challenge(offers: Iterable[str]) -> Dict[str, str]:
    """The parameters of a Digest that is known, the strongest that the camera offers; empty: Basic."""
    digests = []
    for offer in filter(None, (re.search(r"(?i)(?:^|,)\s*digest\s+(.+)", offer) for offer in offers)):
        pairs = [one.partition("=")[::2] for one in parse_http_list(offer.group(1)) if "=" in one]
        parameters = {name.strip().lower(): re.sub('^"(.*)"$', r"\1", value.strip()) for name, value in pairs}
        if parameters.get("algorithm", "MD5").upper() in HASHES and parameters.get("nonce"):
            digests.append(parameters)
    return max(digests, key=lambda one: len(one.get("algorithm", "MD5")), default={})


def _login(challenge: Mapping[str, str], address: Any, target: str, count: int) -> str:
    """The header ``Authorization`` of the request number ``count`` with a challenge."""
    user, password = address.user, address.password or ""
    if not challenge:
        both = "{}:{}".format(user, password).encode("utf-8")
        return "Basic " + base64.b64encode(both).decode("ascii")
    algorithm = challenge.get("algorithm", "MD5")
    new_hash = HASHES[algorithm.upper()]

    def hashed(*parts: str) -> str:
        return new_hash(":".join(parts).encode("utf-8")).hexdigest()

    realm, nonce = challenge.get("realm", ""), challenge["nonce"]
    own, number = os.urandom(8).hex(), "{:08x}".format(count)
    secret, request_hash = hashed(user, realm, password), hashed("GET", target)
    if algorithm.upper().endswith("-SESS"):
        secret = hashed(secret, nonce, own)
    quoted = [("username", user), ("realm", realm), ("nonce", nonce), ("uri", target)]
    bare = [("algorithm", algorithm)]
    if "auth" in [word.strip() for word in challenge.get("qop", "").split(",")]:
        quoted += [("response", hashed(secret, nonce, number, own, "auth", request_hash)), ("cnonce", own)]
        bare += [("qop", "auth"), ("nc", number)]
    else:  # RFC 2069, of old cameras
        quoted += [("response", hashed(secret, nonce, request_hash))]
    if "opaque" in challenge:
        quoted += [("opaque", challenge["opaque"])]
    escaped = ['{}="{}"'.format(name, re.sub(r'([\\\\"])', r"\\\1", value)) for name, value in quoted]
    return "Digest " + ", ".join(escaped + ["{}={}".format(*one) for one in bare])


class HttpSource(OpenCVCamera):
    """Gray or RGB uint8 pictures of a network camera at the bundle's size."""

    schemes = ("http",)
    forms = ("http://...", "https://...")
    help = "network camera with JPEGs, as a stream or one a request, at most one a tick. Basic and Digest login"
    port = 80
    raw_on_network = True

    def __init__(self, place: str, spec: Sensor) -> None:
        need_image(spec, "a network camera")
        self._pictures = Pictures("{}:{}".format(self.schemes[0], place), spec.get("tick_hz"))
        super(HttpSource, self).__init__(self._pictures.name, spec)
        self._start(place)

    @classmethod
    def forward(cls, source: str, sensor: Sensor, pipe: Any, prepared: Any) -> None:  # noqa: ARG003
        """Send JPEGs as they come: the inside decodes them, where a decoder has no network to leak to."""
        pictures = Pictures(source, sensor.get("tick_hz"))
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
