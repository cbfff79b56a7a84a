"""Pages about the service, for this machine: /livez, /readyz, /healthz, /metrics (Prometheus text) and /logs.

They do not go where frames go: drop reasons and faults may reveal what a camera saw, so they stay on loopback, where
the Host header must name this device, or are behind a token.
"""

import collections
import json
import re
from typing import Any, Callable, Dict, Iterable, Iterator, NamedTuple, Optional, Tuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ipc.counters import drops
from edgeveil.edge_runtime.manifest.count import CountRules
from edgeveil.edge_runtime.outside import event_log
from edgeveil.edge_runtime.outside.host.board_health import Gauge
from edgeveil.edge_runtime.sinks.count_report import STATES, CountReport
from edgeveil.edge_runtime.sinks.page_server import Answer, PageServer, check_token
from edgeveil.edge_runtime.sinks.uri import secret, split

_TEXT, _METRICS = "text/plain; charset=utf-8", "text/plain; version=0.0.4; charset=utf-8"


class Place(NamedTuple):
    """Where the pages are served; ``token`` is None where they are for this device alone."""

    host: str
    port: int
    token: Optional[str]


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


class HealthPages(PageServer):
    """Serves the pages at ``place`` in its own thread.

    ``state`` has ``live()`` and ``ready()`` (an empty text, or what is wrong), ``healthz()`` (a dict), ``metrics()``
    (lines) and ``log``. Raises ``OSError`` if the port is taken.
    """

    def __init__(self, place: Place, state: Any) -> None:
        self._state = state
        super(HealthPages, self).__init__(place.host, place.port, place.token, self._answer_page)

    def _answer_page(self, path: str, _query: Dict[str, str], _is_local: bool) -> Answer:
        page = _PAGES.get(path)
        answer = (404, _TEXT, "expected one of " + " ".join(_PAGES) + "\n")
        code, kind, text = page(self._state) if page else answer
        return Answer(kind, text.encode("utf-8"), code)


def place_of(text: str) -> Optional[Place]:
    """``HOST:PORT`` or ``HOST:PORT?token_file=FILE`` as an address and its token, None for ``off``.

    Raises ``BadInput``, also for an address that others can reach without a token.
    """
    if text == "off":
        return None
    where, options = split(text, {"token_file": str})
    host, _, port = where.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise BadInput("expected --health as HOST:PORT, such as 127.0.0.1:9464, or off; got {!r}".format(where))
    host = host.strip("[]") or "127.0.0.1"
    host = "127.0.0.1" if host == "localhost" else host
    token = secret(options.get("token_file"), None, "the token of the health pages")
    check_token(host, token, "a --health page", "--health '{}?token_file=FILE'".format(where))
    return Place(host, int(port), token)


def metrics(
    inside: Dict[str, int],
    outside: Dict[str, int],
    sinks: Dict[str, Dict[str, int]],
    gauges: Dict[str, float],
    board: Iterable[Gauge] = (),
) -> Iterator[str]:
    """Prometheus lines of the counters of both processes and of the sinks, of the gauges, and of the board."""
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
    for gauge in board:
        yield _line(gauge.name, gauge.value, **gauge.labels)


def count_metrics(rules: CountRules, report: CountReport) -> Iterator[str]:
    """Prometheus lines of what was counted in the last period, as it left; no number where none did."""
    yield _line("count-period-seconds", rules.period_s)
    for state in STATES:
        yield _line("count-state", int(report.state == state), state=state)
    for (kind, name, what), value in zip(rules.names, report.values or ()):
        yield _line("count", value, kind=kind, place=name, what=what)


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
