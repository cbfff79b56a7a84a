"""The HTTP server of the pages (preview, health), for this device alone or for who has the token. It is read-only.

Strangers hold nothing up: a request must come within a few seconds as a whole, and where there are too many
connections the oldest that has not shown the token is closed, so anyone who shows it at once is always answered.
"""

import collections
import contextlib
import hmac
import http.server
import io
import ipaddress
import re
import socket
import socketserver
import threading
import time
from typing import Any, Callable, Dict, NamedTuple, Optional
from urllib.parse import parse_qsl, urlsplit

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sinks.uri import LOOPBACK

MOST_CONNECTIONS, MOST_OF_ONE = 16, 8  # in all, and of one address (one /64 of IPv6)
MOST_HEAD_BYTES = 8192
REQUEST_S, ANSWER_S = 5.0, 10.0  # for the whole head of a request, and for the whole answer
_COOKIE = "edgeveil_{}={}"  # by port: browsers keep cookies by host alone
_TOKEN = r"[A-Za-z0-9_.~-]{16,128}"  # noqa: S105 - what one looks like; goes into an address and a cookie as it is
_HOST = re.compile(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


class Answer(NamedTuple):
    """What a page answers: its content type, its bytes and the status code."""

    kind: str
    data: bytes
    code: int = 200


Answers = Callable[[str, Dict[str, str], bool], Optional[Answer]]


class PageServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Asks ``answers(path, query, is_local)`` for an ``Answer``; None is "not found".

    With a ``token`` every request needs it: in its address (once, then in a cookie) or as ``Authorization: Bearer``.
    Without one, the Host header must name this device, so that no page on the web can use a browser here to read these
    pages; with ``local`` it must, token or not. ``policy`` is the Content-Security-Policy of the answers. Raises
    ``OSError`` where the port cannot be had.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True  # a restart need not wait until the system has forgotten old connections
    request_queue_size = 32

    def __init__(
        self, bind: str, port: int, token: Optional[str], answers: Answers, policy: str = _POLICY, local: bool = False
    ) -> None:
        self.token, self.answers, self.policy, self.local = token, answers, policy, local
        self._lock = threading.Lock()
        self._strangers: "collections.OrderedDict[Any, str]" = collections.OrderedDict()  # oldest first
        self._known: Dict[Any, str] = {}
        self.address_family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        super(PageServer, self).__init__((bind, port), _Handler)
        threading.Thread(target=self.serve_forever, args=(0.2,), name="pages", daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a new thread. Where there are too many, close the oldest stranger's connection or else this."""
        origin = _origin(client_address[0])
        with self._lock:
            everyone = list(self._strangers.values()) + list(self._known.values())
            of_one = everyone.count(origin) >= MOST_OF_ONE
            full = of_one or len(everyone) >= MOST_CONNECTIONS
            oldest = [one for one, of in self._strangers.items() if not of_one or of == origin][:1] if full else []
            for one in oldest:
                del self._strangers[one]
            if not full or oldest:
                self._strangers[request] = origin
        for one in oldest:
            with contextlib.suppress(OSError):  # it ended by itself
                one.shutdown(socket.SHUT_RDWR)
        if full and not oldest:
            self.shutdown_request(request)
        else:
            super(PageServer, self).process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, then forget the connection."""
        try:
            super(PageServer, self).process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._strangers.pop(request, None)
                self._known.pop(request, None)

    def let_in(self, request: Any) -> None:
        """Count a connection as one of somebody who may see the pages: it is not closed for a stranger."""
        with self._lock:
            origin = self._strangers.pop(request, None)
            if origin is not None:
                self._known[request] = origin

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing when a browser closes the connection early."""

    def close(self) -> None:
        """Stop answering."""
        self.shutdown()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    server_version, sys_version = "EdgeVeil", ""
    server: PageServer

    def handle(self) -> None:
        """One request. The whole head has a deadline: with one for each read, a byte now and then holds it open."""
        head = self._head()
        if head is not None:
            self.connection.settimeout(ANSWER_S)
            self.rfile = io.BytesIO(head)
            self.handle_one_request()

    def _head(self) -> Optional[bytes]:
        data, end = b"", time.monotonic() + REQUEST_S
        while b"\r\n\r\n" not in data:
            left = end - time.monotonic()
            if left <= 0 or len(data) > MOST_HEAD_BYTES:
                return None
            self.connection.settimeout(left)
            try:
                piece = self.connection.recv(4096)
            except OSError:
                return None
            if not piece:
                return None
            data += piece
        return data

    def do_GET(self) -> None:
        problem = self._problem()
        if problem:
            self._answer(Answer("text/plain", problem, 403))
            return
        self.server.let_in(self.request)
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        if self.server.token is not None and "token" in query:
            # Out of the address, so that it stays in no history and no screenshot.
            cookie = self._cookie(self.server.token) + "; HttpOnly; SameSite=Strict; Path=/"
            # Two slashes at the start would name another host, and browsers take \\ for one.
            place = "/" + parts.path.lstrip("/\\")
            place = place if re.fullmatch("[A-Za-z0-9._/-]*", place) else "/"
            self._answer(Answer("text/plain", b"", 303), {"Location": place, "Set-Cookie": cookie})
            return
        is_local = self.client_address[0] in ("127.0.0.1", "::1", "::ffff:127.0.0.1")
        answer = self.server.answers(parts.path, query, is_local)
        self._answer(answer or Answer("text/plain", b"There is nothing of that name.\n", 404))

    def _problem(self) -> bytes:
        """Why this request is not answered; empty where it is. Nothing else is done with a request before."""
        token = self.server.token
        if token is None or self.server.local:
            host = _HOST.fullmatch(self.headers.get("Host", ""))  # urlsplit finds a host in more than that
            here = host is not None and host.group(1).strip("[]").lower() in LOOPBACK
            if not here:
                return b"This page is for this device alone.\n"
        if token is None:
            return b""
        cookies = self.headers.get("Cookie", "").split(";")[:32]
        given = [_same(part.strip(), self._cookie(token)) for part in cookies]
        given.append(_same(self.headers.get("Authorization", ""), "Bearer " + token))
        given += [_same(part, "token=" + token) for part in self.path.partition("?")[2].split("&")[:32]]
        return b"" if any(given) else b"Open this page with ?token= and the token it was started with.\n"

    def _cookie(self, token: str) -> str:
        return _COOKIE.format(self.server.server_address[1], token)

    def send_error(self, code: int, message: Any = None, explain: Any = None) -> None:  # noqa: ARG002 - its signature
        """Answer a request that is none, or not a GET, without repeating any of it."""
        self._answer(Answer("text/plain", b"This is not a request for a page.\n", code))

    def _answer(self, answer: Answer, more: Optional[Dict[str, str]] = None) -> None:
        headers = {
            "Content-Type": answer.kind,
            "Content-Length": str(len(answer.data)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": self.server.policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        self.send_response(answer.code)
        for name, value in dict(headers, **(more or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.data)

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests: an address may hold the token."""


def check_token(bind: str, token: Optional[str], page: str, advice: str) -> None:
    """Raise ``BadInput`` for a page that others could read without a token, or one that is easily guessed.

    ``page`` names the page and ``advice`` says how to give a token.
    """
    try:
        loopback = ipaddress.ip_address(bind).is_loopback
    except ValueError:
        raise BadInput("expected an address of this device for {}, as 0.0.0.0; got {!r}".format(page, bind)) from None
    if token is None and not loopback:
        raise BadInput("{} that others can reach needs a token: {}".format(page, advice))
    if token is not None and not re.fullmatch(_TOKEN, token):
        raise BadInput("expected a token of 16 to 128 letters, digits or -_.~: openssl rand -hex 16 makes one")


def _origin(address: str) -> str:
    """Whom a connection counts for: an address, or the /64 of IPv6, of which one visitor has all."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        mapped = ip.ipv4_mapped
        return str(mapped) if mapped else str(int(ip) >> 64)
    return str(ip)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode("utf-8"))
