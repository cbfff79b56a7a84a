"""The HTTP server of the preview page: read-only, for this device alone or for who has the token."""

import hmac
import http.server
import socket
import socketserver
import threading
from typing import Any, Callable, Dict, Optional, Tuple
from urllib.parse import parse_qsl, urlsplit

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sinks.preview.page import POLICY
from edgeveil.edge_runtime.sinks.uri import LOOPBACK

MOST_CONNECTIONS = 16
_COOKIE = "edgeveil_preview="

Answer = Tuple[str, bytes]
Answers = Callable[[str, Dict[str, str], bool], Optional[Answer]]


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Asks ``answers(path, query, is_local)`` for (content type, bytes); None is "not found".

    With a ``token`` every request needs it: the first in its address, the later ones in a cookie. Without one, the Host
    header must name this device, so that no page on the web can use a browser here to read the preview.
    Raises ``BadInput`` where the port cannot be had.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, bind: str, port: int, token: Optional[str], answers: Answers) -> None:
        self.token, self.answers = token, answers
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        try:
            super(Server, self).__init__((bind, port), _Handler)
        except OSError as error:
            problem = str(error.strerror or error).lower()
            raise BadInput(
                "the preview cannot have port {} of {} ({}): choose another".format(port, bind, problem)
            ) from None
        threading.Thread(target=self.serve_forever, args=(0.2,), name="preview", daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a new thread; close the connection while there are too many."""
        if self._free.acquire(False):
            super(Server, self).process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, then count the connection as free."""
        try:
            super(Server, self).process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing when a browser closes the connection early."""

    def close(self) -> None:
        """Stop answering."""
        self.shutdown()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = 10
    server_version, sys_version = "EdgeVeil", ""
    server: Server

    def do_GET(self) -> None:
        parts, token = urlsplit(self.path), self.server.token
        query = dict(parse_qsl(parts.query))
        if token is None:
            if urlsplit("//" + self.headers.get("Host", "")).hostname not in LOOPBACK:
                self._answer(403, "text/plain", b"This page is for this device alone.\n")
                return
        elif _same(query.get("token", ""), token):
            # Out of the address, so that it stays in no history and no screenshot.
            cookie = "{}{}; HttpOnly; SameSite=Strict; Path=/".format(_COOKIE, token)
            self._answer(303, "text/plain", b"", {"Location": "/", "Set-Cookie": cookie})
            return
        elif not any(_same(part.strip(), _COOKIE + token) for part in self.headers.get("Cookie", "").split(";")):
            self._answer(403, "text/plain", b"Open this page with ?token= and the token it was started with.\n")
            return
        is_local = self.client_address[0] in ("127.0.0.1", "::1", "::ffff:127.0.0.1")
        answer = self.server.answers(parts.path, query, is_local)
        if answer is None:
            self._answer(404, "text/plain", b"There is nothing of that name.\n")
        else:
            self._answer(200, *answer)

    def _answer(self, code: int, kind: str, data: bytes, more: Optional[Dict[str, str]] = None) -> None:
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(data)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        self.send_response(code)
        for name, value in dict(headers, **(more or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests: an address may hold the token."""


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8"), wanted.encode("utf-8"))
