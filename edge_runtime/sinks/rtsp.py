"""``rtsp://HOST/PATH`` and ``rtsps://`` (TLS): the main output as motion JPEG to a server that passes it on.

MediaMTX and go2rtc take it (RFC 2326: ANNOUNCE, SETUP, RECORD), and their viewers read RTSP from them. RTP goes through
the same connection (RFC 2435): each picture is as many packets of one size, whatever it shows. A video codec would send
more when more moves.
"""

import hashlib
import os
import re
import socket
import ssl
import struct
import time
from base64 import b64encode
from typing import Any, Dict, List, NamedTuple, Optional, Tuple
from urllib.parse import quote

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.sinks.broker import FILES, context
from edgeveil.edge_runtime.sinks.forms import JpegForm, checked_slot
from edgeveil.edge_runtime.sinks.network_base import LOGIN, TIMEOUT_S, ConnectionLost, NetworkSink
from edgeveil.edge_runtime.sinks.uri import LOOPBACK, Known, address, secret, slot_of

ALIVE_S = 20.0  # servers end a session after a minute without a request
_MOST_BYTES = 1400  # of a picture in one packet
_MOST_SIDE = 2040  # pixels; RFC 2435 counts them by eights in one byte
_CLOCK_HZ = 90000
_HEAD = struct.Struct(">BBHII")  # of RTP: version, marker and type, number, time, source
_JPEG = struct.Struct(">B3sBBBB")  # type, offset, sampling, quality, width and height by eights
_TABLES = struct.Struct(">BBH")
_SAMPLING = 1  # chroma halved in both directions
_IN_BAND = 255  # the tables come with each picture
_HEADER_LINES = 100


class Scan(NamedTuple):
    """What RFC 2435 sends of a JPEG: the quantization tables, 64 bytes each, and the data behind the last header."""

    tables: bytes
    data: bytes


def scan_of(jpeg: bytes) -> Scan:
    """The parts of a baseline JPEG. Raises ``ValueError`` for another, which RFC 2435 cannot carry."""
    tables, at = {}, 2  # type: Dict[int, bytes], int
    while True:
        marker, size = struct.unpack_from(">HH", jpeg, at)
        content, at = jpeg[at + 4 : at + 2 + size], at + 2 + size
        if marker == 0xFFDB:
            while content:
                if content[0] >> 4:
                    raise ValueError("tables of 16 bits")
                tables[content[0] & 15], content = content[1:65], content[65:]
        elif marker == 0xFFC0:
            if content[5] != 3 or [content[place] for place in (7, 10, 13)] != [0x22, 0x11, 0x11]:
                raise ValueError("another sampling")
        elif marker == 0xFFDA:
            # With its end, which is optional: GStreamer adds none behind a byte that fills up.
            return Scan(tables[0] + tables[1], jpeg[at:])
        elif marker >> 8 != 0xFF or (0xFFC1 <= marker <= 0xFFCF and marker != 0xFFC4):
            raise ValueError("no baseline JPEG")


class RtspSink(NetworkSink):
    """Pictures of one slot, at most ``keeps_s`` old; the times of RTP are those of the ticks."""

    schemes = ("rtsp", "rtsps")
    forms = ("rtsp://HOST[:8554]/PATH", "rtsps://HOST[:8322]/PATH")
    help = "the main output as motion JPEG to MediaMTX or go2rtc, which pass it on; older than 2 s: dropped; `slot=0`"
    secret_path = True
    sends = "jpeg"
    one_slot = True
    keeps_s = 2.0

    def __init__(self, uri: str, outputs: List[Output], manifest: Optional[Manifest], settings: Dict[str, Any]) -> None:
        secure = uri.startswith("rtsps:")
        known: Known = dict(user=str, password_file=str, slot=slot_of, **(FILES if secure else {}))
        host, port, path, options = address(uri, 8322 if secure else 8554, known)
        if path in ("", "/"):
            raise BadInput("expected rtsp://HOST/PATH; got no path")
        self._where = (host, port)
        user = options.get("user") or os.environ.get("EDGEVEIL_RTSP_USERNAME")
        given = os.environ.get("EDGEVEIL_RTSP_PASSWORD")
        password = secret(options.get("password_file"), given, "the password for RTSP")
        if bool(user) != bool(password):
            raise BadInput("a login of RTSP needs user=NAME and password_file=FILE, both")
        if password and not secure and host not in LOOPBACK:
            raise BadInput("the password would cross the network in the clear: use rtsps://")
        self._login = (user, password) if user and password else None
        self._tls = context(options) if secure else None
        self._slot = checked_slot(options.get("slot", 0), manifest)
        self._form = JpegForm(outputs, manifest, rgb=True, whole=8)
        if max(self._form.height, self._form.width) > _MOST_SIDE:
            raise BadInput("RTSP takes pictures of at most {0} x {0}: use http:// with as=jpeg".format(_MOST_SIDE))
        shown = "{}:{}".format("[{}]".format(host) if ":" in host else host, port)
        scheme = "rtsps" if secure else "rtsp"
        self._url = "{}://{}{}".format(scheme, shown, quote(path))
        self._source, self._number = struct.unpack(">IH", os.urandom(6))
        super(RtspSink, self).__init__(
            "{}://{}/...".format(scheme, shown), outputs, manifest, dict(settings, ttl=self.keeps_s)
        )

    def _connect(self) -> None:
        plain = socket.create_connection(self._where, TIMEOUT_S)
        self._connection = plain
        if self._tls is not None:
            self._connection = self._tls.wrap_socket(plain, server_hostname=self._where[0])
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received, self._asked, self._challenge, self._session = b"", 0, "", ""
        host = self._where[0]
        family = "IP6" if ":" in host else "IP4"
        lines = ["v=0", "o=- 0 0 IN {} {}".format(family, host), "s=EdgeVeil"]
        lines += ["c=IN {} {}".format(family, "::" if family == "IP6" else "0.0.0.0")]  # noqa: S104 - the server's own
        lines += ["t=0 0", "m=video 0 RTP/AVP 26", "a=rtpmap:26 JPEG/90000", "a=control:streamid=0", ""]
        self._ask("ANNOUNCE", self._url, {"Content-Type": "application/sdp"}, "\r\n".join(lines))
        transport = "RTP/AVP/TCP;unicast;interleaved=0-1;mode=record"
        answer = self._ask("SETUP", self._url + "/streamid=0", {"Transport": transport})
        self._session = answer.get("session", "").partition(";")[0]
        self._ask("RECORD", self._url, {"Range": "npt=0.000-"})
        self._alive_s = time.monotonic()

    def _send(self, record: bytes) -> bool:
        self._check()
        if self._is_count(record):
            return True
        one = self._format.decode(record)
        if one.slot != self._slot:
            return True
        tables, data = scan_of(self._form.encode(one))
        time_ns = int(time.time() * 1e9) if one.tick_ns is None else one.tick_ns
        stamp = time_ns * _CLOCK_HZ // 10**9 % 2**32
        packets, at = [], 0
        while at < len(data):
            head = _JPEG.pack(0, struct.pack(">I", at)[1:], _SAMPLING, _IN_BAND, *self._eights())
            if at == 0:
                head += _TABLES.pack(0, 0, len(tables)) + tables
            part = data[at : at + _MOST_BYTES - len(head)]
            at += len(part)
            marker = 0x80 if at == len(data) else 0
            packet = _HEAD.pack(0x80, marker | 26, self._number, stamp, self._source) + head + part
            self._number = (self._number + 1) % 2**16
            packets.append(b"$\x00" + struct.pack(">H", len(packet)) + packet)
        self._connection.sendall(b"".join(packets))
        return True

    def _eights(self) -> Tuple[int, int]:
        return self._form.width // 8, self._form.height // 8

    def _send_status(self, document: Dict[str, Any]) -> None:
        pass  # RTP has no place for it

    def _check(self) -> None:
        """Take in what the server says meanwhile, and let it know that the session goes on."""
        self._connection.settimeout(0)  # what is there may be a message of TLS's own
        try:
            while True:
                if not self._connection.recv(2**16):
                    raise ConnectionLost("the server has closed the connection")
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        finally:
            self._connection.settimeout(TIMEOUT_S)
        now = time.monotonic()
        if now - self._alive_s > ALIVE_S:
            self._alive_s = now
            self._request("OPTIONS", self._url, {}, "")

    def _disconnect(self) -> None:
        try:
            if self._connection is not None and self._stop.is_set() and not self._cut:
                self._request("TEARDOWN", self._url, {}, "")
        finally:
            super(RtspSink, self)._disconnect()

    def _ask(self, method: str, url: str, headers: Dict[str, str], body: str = "") -> Dict[str, str]:
        """The headers of the server's answer. Raises ``ConnectionLost`` where it refuses."""
        self._request(method, url, headers, body)
        code, answer = self._answer()
        if code == 401 and self._login is not None and not self._challenge:
            self._challenge = answer.get("www-authenticate", "")
            self._request(method, url, headers, body)
            code, answer = self._answer()
        if code == 401:
            raise ConnectionLost("the server wants another name and password", LOGIN)
        if code != 200:
            raise ConnectionLost("the server answers {} to {}".format(code, method))
        return answer

    def _request(self, method: str, url: str, headers: Dict[str, str], body: str) -> None:
        self._asked += 1
        all_headers = dict({"CSeq": str(self._asked), "User-Agent": "EdgeVeil"}, **headers)
        if self._session:
            all_headers["Session"] = self._session
        if self._challenge:
            all_headers["Authorization"] = self._authorization(method, url)
        if body:
            all_headers["Content-Length"] = str(len(body))
        lines = ["{} {} RTSP/1.0".format(method, url)]
        lines += ["{}: {}".format(*one) for one in all_headers.items()] + ["", body]
        self._connection.sendall("\r\n".join(lines).encode("utf-8"))

    def _authorization(self, method: str, url: str) -> str:
        user, password = self._login or ("", "")
        if self._challenge.lower().startswith("basic"):
            return "Basic " + b64encode("{}:{}".format(user, password).encode("utf-8")).decode("ascii")
        named = dict(re.findall(r'(\w+)="([^"]*)"', self._challenge))
        realm, nonce = named.get("realm", ""), named.get("nonce", "")
        if not self._challenge.lower().startswith("digest") or "algorithm=SHA" in self._challenge.replace('"', ""):
            raise ConnectionLost("the server wants a login that is neither Basic nor Digest by MD5")
        mine, this = _md5(user, realm, password), _md5(method, url)
        parts = {"username": user, "realm": realm, "nonce": nonce, "uri": url, "response": _md5(mine, nonce, this)}
        return "Digest " + ", ".join('{}="{}"'.format(*one) for one in parts.items())

    def _answer(self) -> Tuple[int, Dict[str, str]]:
        """Code and headers of the next answer; interleaved packets of the server are skipped."""
        while self._exactly(1, keep=True) == b"$":
            size = struct.unpack(">H", self._exactly(4)[2:])[0]
            self._exactly(size)
        first = self._line()
        headers = {}  # type: Dict[str, str]
        for _ in range(_HEADER_LINES):
            line = self._line()
            if not line:
                break
            name, _, value = line.partition(":")
            # Of several challenges, Digest: it does not send the password.
            if name.lower() != "www-authenticate" or not headers.get(name.lower(), "").startswith("Digest"):
                headers[name.lower()] = value.strip()
        length = headers.get("content-length", "0")
        self._exactly(min(int(length), 2**16) if length.isdigit() else 0)
        found = re.match(r"RTSP/1\.[0-9] ([0-9]{3})\b", first)
        if found is None:
            raise ConnectionLost("the server does not answer in RTSP")
        return int(found.group(1)), headers

    def _line(self) -> str:
        while b"\n" not in self._received and len(self._received) < 8192:
            self._read_more()
        line, _, self._received = self._received.partition(b"\n")
        return line.decode("utf-8", "replace").rstrip("\r")

    def _exactly(self, size: int, *, keep: bool = False) -> bytes:
        while len(self._received) < size:
            self._read_more()
        data = self._received[:size]
        if not keep:
            self._received = self._received[size:]
        return data

    def _read_more(self) -> None:
        data = self._connection.recv(4096)
        if not data:
            raise ConnectionLost("the server has closed the connection")
        self._received += data


def _md5(*parts: str) -> str:
    return hashlib.md5(":".join(parts).encode("utf-8")).hexdigest()  # noqa: S324 - RFC 2617 has no other
