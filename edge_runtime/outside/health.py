"""Pages about the service, for this machine: /livez, /readyz, /healthz, /metrics (Prometheus text) and /logs.

They do not go where frames go: drop reasons and faults may reveal what a camera saw, so they stay on loopback.
"""

import collections
import http.server
import json
import re
import socketserver
import threading
from typing import Any, Callable, Dict, Iterator, Tuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ipc.counters import drops
from edgeveil.edge_runtime.outside import event_log

_TEXT, _METRICS = "text/plain; charset=utf-8", "text/plain; version=0.0.4; charset=utf-8"


def _word(problem: str) -> Tuple[int, str, str]:
    return (503 if problem else 200), _TEXT, (problem or "ok") + "\n"


def _healthz(state: Any) -> Tuple[int, str, str]:
    return 200, "application/json", json.dumps(state.healthz(), sort_keys=True, indent=1) + "\n"


# path -> function from the service's state to status code, content type and text
_PAGES: Dict[str, Callable[[Any], Tuple[int, str, str]]] = {
    "/livez": lambda state: _word(state.live()),
    "/readyz": lambda state: _word(state.ready()),
    "/healthz": _healthz,
    "/metrics": lambda state: (200, _METRICS, "\n".join(state.metrics()) + "\n"),
    "/logs": lambda state: (200, _TEXT, "".join(event_log.as_json(event) + "\n" for event in state.log.kept())),
}


class HealthPages(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Serves the pages on ``host`` and ``port`` in its own thread.

    ``state`` has ``live()`` and ``ready()`` (an empty text, or what is wrong), ``healthz()`` (a dict), ``metrics()``
    (lines) and ``log``. Raises ``OSError`` if the port is taken.
    """

    daemon_threads = True
    # A restart need not wait until the system has forgotten old connections.
    allow_reuse_address = True

    def __init__(self, host: str, port: int, state: Any) -> None:
        super(HealthPages, self).__init__((host, port), _Handler)
        self.state = state
        threading.Thread(target=self.serve_forever, args=(0.2,), name="health", daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self.shutdown()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: HealthPages
    timeout = 5  # seconds until a request must have come

    def do_GET(self) -> None:
        """Answer one of the pages, or 404."""
        page = _PAGES.get(self.path.partition("?")[0])
        answer = (404, "text/plain", "expected one of " + " ".join(_PAGES) + "\n")
        code, kind, text = page(self.server.state) if page else answer
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
    """Prometheus lines of the counters of both processes and of the sinks, and of the gauges."""
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
    """Frames dropped in either process, by reason."""
    together = collections.Counter(drops(inside))
    together.update(drops(outside))
    return dict(together)


def _line(name: str, value: float, **labels: str) -> str:
    inner = ",".join('{}="{}"'.format(key, _escaped(text)) for key, text in sorted(labels.items()))
    return "edgeveil_{}{} {:.10g}".format(re.sub("[^a-z0-9_]", "_", name), "{" + inner + "}" if inner else "", value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
