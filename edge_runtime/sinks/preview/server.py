"""The server of the preview page: small, read-only, to loopback or to who has the token."""

import hmac
import http.server
import json
import socketserver
import threading
from typing import Any, Callable, Dict, Optional, Tuple
from urllib.parse import parse_qs, urlsplit

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sinks.preview.page import POLICY

MOST_CONNECTIONS = 16
_COOKIE = "edgeveil_preview"
_HOSTS = ("localhost", "127.0.0.1", "::1")

Answer = Tuple[str, bytes]
Answers = Callable[[str, Dict[str, str], bool], Optional[Answer]]


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Asks ``answers(path, query, is_local)`` for (content type, bytes); None is "not found".

    With a ``token`` nothing is answered without it: it comes once in the address and goes into a cookie. Without one
    the host that was asked for must be this one by name, so that no page on the web can borrow a browser here.
    Raises ``BadInput`` where the port cannot be had.
    """

    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, bind: str, port: int, token: Optional[str], answers: Answers) -> None:
        self.token, self.answers = token, answers
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        if ":" in bind:
            import socket

            self.address_family = socket.AF_INET6
        try:
            super(Server, self).__init__((bind, port), _Handler)
        except OSError as error:
            raise BadInput(
                "the preview cannot have port {} of {} ({}): choose another".format(
                    port, bind, str(error.strerror or error).lower()
                )
            ) from None
        threading.Thread(target=self.serve_forever, args=(0.2,), name="preview", daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own; refused while there are too many connections."""
        if not self._free.acquire(False):
            self.shutdown_request(request)
            return
        super(Server, self).process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Count the connection as free again at the end."""
        try:
            super(Server, self).process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that closes the connection early is not reported."""

    def close(self) -> None:
        """Stop answering."""
        self.shutdown()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = 10
    server_version, sys_version = "EdgeVeil", ""
    server: Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        if self.server.token is None:
            if not self._asked_for_this_host():
                self._answer(403, "text/plain", b"This page is for this device alone.\n")
                return
        elif _same(query.get("token"), self.server.token):
            # Out of the address, so that it stays in no history and no screenshot.
            cookie = "{}={}; HttpOnly; SameSite=Strict; Path=/".format(_COOKIE, self.server.token)
            self._answer(303, "text/plain", b"", {"Location": "/", "Set-Cookie": cookie})
            return
        elif not _same(self._cookie(), self.server.token):
            self._answer(403, "text/plain", b"Open this page with ?token= and the token it was started with.\n")
            return
        is_local = self.client_address[0] in ("127.0.0.1", "::1", "::ffff:127.0.0.1")
        answer = self.server.answers(parts.path, query, is_local)
        if answer is None:
            self._answer(404, "text/plain", b"There is nothing of that name.\n")
        else:
            self._answer(200, *answer)

    def _asked_for_this_host(self) -> bool:
        host = self.headers.get("Host", "")
        return urlsplit("//" + host).hostname in _HOSTS

    def _cookie(self) -> Optional[str]:
        for part in self.headers.get("Cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == _COOKIE:
                return value
        return None

    def _answer(self, code: int, kind: str, data: bytes, more: Optional[Dict[str, str]] = None) -> None:
        self.send_response(code)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(data)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        headers.update(more or {})
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged; an address may hold the token."""


def _same(given: Optional[str], token: str) -> bool:
    return given is not None and hmac.compare_digest(given.encode("utf-8"), token.encode("utf-8"))


def as_json(document: Dict[str, Any]) -> Answer:
    """An answer of ``Server``."""
    return "application/json", json.dumps(document, allow_nan=False).encode("utf-8")
