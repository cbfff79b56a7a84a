"""Pages about the service, for this machine: /livez, /readyz, /healthz, /metrics (Prometheus text) and /logs.

Nothing here goes where frames go: drop reasons and faults may tell what a camera saw, so they stay on loopback.
"""

import http.server
import json
import re
import socketserver
import threading
from typing import Any, Callable, ClassVar, Dict, Iterator, Tuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ipc.counters import drops
from edgeveil.edge_runtime.outside import event_log

_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class HealthPages(object):
    """Serves the pages on ``host`` and ``port`` in a thread of its own, as ``state`` gives the answers.

    ``state`` has ``live()`` and ``ready()`` (an empty text, or what is wrong), ``healthz()`` (a dict), ``metrics()``
    (lines) and ``log``. Raises ``OSError`` where the port is taken.
    """

    def __init__(self, host: str, port: int, state: Any) -> None:
        class Handler(_Handler):
            pages = _pages(state)

        self._server = _Server((host, port), Handler)
        self.address = self._server.server_address
        thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="health", daemon=True)
        thread.start()

    def close(self) -> None:
        """Serve no longer."""
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    # So that a restart does not wait for old connections to be forgotten.
    allow_reuse_address = True


def _pages(state: Any) -> Dict[str, Callable[[], Tuple[int, str, str]]]:
    def word(problem: str) -> Tuple[int, str, str]:
        return (503 if problem else 200), "text/plain; charset=utf-8", (problem or "ok") + "\n"

    def as_json(document: Any) -> Tuple[int, str, str]:
        return 200, "application/json", json.dumps(document, sort_keys=True, indent=1) + "\n"

    return {
        "/livez": lambda: word(state.live()),
        "/readyz": lambda: word(state.ready()),
        "/healthz": lambda: as_json(state.healthz()),
        "/metrics": lambda: (200, _TYPE, "\n".join(state.metrics()) + "\n"),
        "/logs": lambda: (
            200,
            "text/plain; charset=utf-8",
            "".join(event_log.as_json(r) + "\n" for r in state.log.kept()),
        ),
    }


class _Handler(http.server.BaseHTTPRequestHandler):
    pages: ClassVar[Dict[str, Callable[[], Tuple[int, str, str]]]] = {}
    timeout = 5  # seconds for a request that does not come

    def do_GET(self) -> None:
        """Answer one of the pages, or 404."""
        page = self.pages.get(self.path.partition("?")[0])
        code, kind, text = page() if page else (404, "text/plain", "expected one of " + " ".join(self.pages) + "\n")
        body = text.encode("utf-8")
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Requests are not logged."""


def address(text: str) -> Tuple[str, int]:
    """``HOST:PORT`` as a pair; raises ``BadInput``."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise BadInput("expected --health as HOST:PORT, such as 127.0.0.1:9464, or off; got {!r}".format(text))
    return host.strip("[]") or "127.0.0.1", int(port)


def metrics(
    inside: Dict[str, int], outside: Dict[str, int], sinks: Dict[str, Dict[str, int]], gauges: Dict[str, float]
) -> Iterator[str]:
    """Prometheus lines of the counters of both processes, of the sinks, and of what is so now."""
    for name in ("frames-in", "rechecks", "source-opened"):
        yield _line(name + "-total", inside.get(name, 0))
    for name in ("frames-out", "ticks", "ticks-repeated", "ticks-missed", "inside-restarts", "sink-dropped"):
        yield _line(name + "-total", outside.get(name, 0))
    yield _line("perturbing-seconds-total", inside.get("busy-us", 0) / 1e6)
    for reason, count in sorted(all_drops(inside, outside).items()):
        yield _line("dropped-total", count, reason=reason)
    for counts in (inside, outside):
        for name, count in sorted(counts.items()):
            if name.startswith("fault:"):
                yield _line("faults-total", count, kind=name[len("fault:") :])
    for sink, numbers in sorted(sinks.items()):
        for name, count in sorted(numbers.items()):
            yield _line("sink-" + name, count, sink=sink)
    for name, value in sorted(gauges.items()):
        yield _line(name, value)


def all_drops(inside: Dict[str, int], outside: Dict[str, int]) -> Dict[str, int]:
    """Frames that went in and did not come out, by reason, wherever they were dropped."""
    together = dict(drops(inside))
    for reason, count in drops(outside).items():
        together[reason] = together.get(reason, 0) + count
    return together


def _line(name: str, value: float, **labels: str) -> str:
    inner = ",".join('{}="{}"'.format(key, _escaped(text)) for key, text in sorted(labels.items()))
    return "edgeveil_{}{} {:.10g}".format(re.sub("[^a-z0-9_]", "_", name), "{" + inner + "}" if inner else "", value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
