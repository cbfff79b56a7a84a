"""A network camera on the loopback: JPEG after JPEG of noise, gray 8 x 8, as long as anyone asks."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))  # type: ignore[attr-defined]
        if self.server.login and self.headers.get("Authorization") is None:  # type: ignore[attr-defined]
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="camera"')
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=b")
        self.end_headers()
        rng, pause = np.random.default_rng(0), threading.Event()
        with contextlib.suppress(OSError):
            while True:
                data = cv2.imencode(".jpg", rng.integers(0, 16, (8, 8, 1)).astype(np.uint8))[1].tobytes()
                self.wfile.write(b"--b\r\nContent-Length: %d\r\n\r\n" % len(data) + data + b"\r\n")
                pause.wait(0.02)

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def serve(*, login: bool = False) -> Iterator[Any]:
    """A server; ``asked`` are the paths and ``Authorization`` headers of its requests. ``login``: it asks for one."""
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    server.daemon_threads, server.asked, server.login = True, [], login
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
