"""The state of a service, for its log and its health pages."""

import collections
import http.client
import itertools
import json
import os
import re
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from edgeveil.edge_runtime import config, paths
from edgeveil.edge_runtime.bundle.policy import IDENTITY_ALLOWED, NOT_AUDITED_ON, announce
from edgeveil.edge_runtime.camera_address import is_private
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.machine import clock_word
from edgeveil.edge_runtime.outside.board_health import board_gauges
from edgeveil.edge_runtime.outside.metrics import count_samples, lines, samples
from edgeveil.edge_runtime.sandbox.isolation import CONVENTION
from edgeveil.edge_runtime.sinks import traffic
from edgeveil.edge_runtime.sinks.page_server import Answer, PageServer, check_token
from edgeveil.edge_runtime.sinks.uri import secret, split, without_secrets
from edgeveil.edge_runtime.sinks.wire import about

# The log: events with a name and a few facts. By default they stay in memory, because SD cards wear out.
#
# A fact is a number or a short text of this program, never a value from a frame.


_KEPT = 500  # events in memory
_LOUD = (
    "start", "ready", "source", "stop", "degraded", "running", "spent", "aiming", "isolation", "port", "sink",
    "sink-again", "inside-ended", "hang",
)  # fmt: skip


class Log(object):
    """Log events. ``kind`` "text" or "json" writes all to stderr, "memory" only those that a person waits for."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._kept: Any = collections.deque(maxlen=_KEPT)

    def say(self, event: str, **facts: Any) -> None:
        """Log one event and its facts."""
        time_ = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        record = dict(facts, event=event, time=time_)
        self._kept.append(record)
        if self._kind == "memory" and event not in _LOUD:
            return
        try:
            sys.stderr.write((as_json if self._kind == "json" else _as_text)(record) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            pass  # a full disk or a closed terminal is no reason to stop

    def kept(self) -> List[Dict[str, Any]]:
        """The last events, oldest first."""
        return list(self._kept)


def as_json(record: Dict[str, Any]) -> str:
    """One line of ASCII, so that no text can control a terminal."""
    return json.dumps(record, sort_keys=True)


def _as_text(record: Dict[str, Any]) -> str:
    facts = dict(record)
    time_, event, message = facts.pop("time"), facts.pop("event"), facts.pop("message", "")
    rest = " ".join("{}={}".format(key, _word(value)) for key, value in sorted(facts.items()))
    return " ".join(part for part in ("{} {}:".format(time_, event), ascii(message)[1:-1], rest) if part)


def _word(value: Any) -> str:
    return "{:.4g}".format(value) if isinstance(value, float) else ascii(value).strip("'")


# Pages about the service, for this machine: /livez, /readyz, /healthz, /metrics (Prometheus text) and /logs.
#
# They do not go where frames go: drop reasons and faults may reveal what a camera saw, so they stay on loopback, where
# the Host header must name this device, or are behind a token.


_TEXT, _METRICS = "text/plain; charset=utf-8", "text/plain; version=0.0.4; charset=utf-8"


READY_S = 5.0  # the most that /readyz may take to answer


class Place(NamedTuple):
    """Where the pages are served; ``token`` is None where they are for this device alone."""

    host: str
    port: int
    token: Optional[str]


def _health_word(problem: str) -> Tuple[int, str, str]:
    return (503 if problem else 200), _TEXT, (problem or "ok") + "\n"


def _healthz(state: Any) -> Tuple[int, str, str]:
    return 200, "application/json", json.dumps(state.healthz(), sort_keys=True, indent=1) + "\n"


# path -> function from the service's state to status code, content type and text
_PAGES: Dict[str, Callable[[Any], Tuple[int, str, str]]] = {
    "/livez": lambda state: _health_word(state.live()),
    "/readyz": lambda state: _health_word(state.ready()),
    "/healthz": _healthz,
    "/metrics": lambda state: (200, _METRICS, "\n".join(state.metrics()) + "\n"),
    "/logs": lambda state: (200, _TEXT, "".join(as_json(event) + "\n" for event in state.log.kept())),
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


def service_state(root: str) -> Optional[Dict[str, Any]]:
    """What systemd and the pages say of the service of ``root``; None where none is installed.

    ``units`` maps each unit to its state, ``ready`` is "ok" or what /readyz or nothing answered, None where the pages
    are off or the settings cannot be read; ``well``: all units are active, and nothing else than "ok" was answered.
    ``figures`` are some of /metrics: frames out and dropped, seconds of a tick and since the last new set, the highest
    temperature in degrees Celsius, whether the processor is throttled now, and receivers that are not connected; one
    that is not there is left out. ``receivers`` are those of /healthz: "ok", or why records do not arrive.
    """
    service = paths.service_of(root)
    parts = ["{}{}.service".format(service, part) for part in ("", "-inside", "-camera")]
    parts = [part for part in parts if os.path.exists(os.path.join(paths.UNITS, part))]
    if not parts:
        return None
    units = {part: _unit_state(part) for part in parts}
    try:
        place = place_of(config.read(paths.named(paths.DEFAULT_PATH, service)).get("health", "127.0.0.1:9464"))
    except BadInput:
        place = None  # of another user, or a token that is not this user's
    ready = None if place is None else _readyz(place)
    well = set(units.values()) == {"active"} and ready in ("ok", None)
    figures = {} if place is None else _figures(_asked(place, "/metrics", 1 << 18)[1])
    receivers = {} if place is None else _receivers(_asked(place, "/healthz", 1 << 18)[1])
    return {"name": service, "units": units, "ready": ready, "well": well, "figures": figures, "receivers": receivers}


def _unit_state(unit: str) -> str:
    command = ["systemctl", "is-active", unit]
    try:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)  # noqa: S603 - ours
        return child.communicate()[0].decode("utf-8", "replace").strip() or "unknown"
    except OSError:
        return "unknown"


def _readyz(place: Place) -> str:
    """The first line of the page, or why there is none."""
    code, text = _asked(place, "/readyz", 1024)
    if code is None:
        return text
    return (text.strip().splitlines() or ["no text"])[0] if code in (200, 503) else "answer {}".format(code)


def _receivers(page: str) -> Dict[str, str]:
    try:
        found = json.loads(page)["receivers"]
        return {str(name): str(said) for name, said in found.items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}  # nothing answers


def _asked(place: Place, path: str, most: int) -> Tuple[Optional[int], str]:
    """The code and at most so many bytes of a page; None and why where nothing answers."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(place.host, place.host)  # noqa: S104 - asked, not bound
    connection = http.client.HTTPConnection(host, place.port, timeout=READY_S)
    try:
        connection.request("GET", path, headers={"Authorization": "Bearer " + place.token} if place.token else {})
        answer = connection.getresponse()
        return answer.status, answer.read(most).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return None, "no answer at {}:{}".format(host, place.port)
    finally:
        connection.close()


# Names of ``figures``, of which several samples make one by this.
_FIGURES: Dict[str, Tuple[str, Callable[[List[float]], float]]] = {
    "frames_out_total": ("frames_out", sum),
    "dropped_total": ("dropped", sum),
    "tick_seconds": ("tick_s", max),
    "fresh_age_seconds": ("fresh_age_s", max),
    "board_temperature_celsius": ("temperature_c", max),
    'board_throttled{since="now"}': ("throttled", max),
    "sink_connected": ("receivers_away", lambda values: values.count(0.0)),
}
_SAMPLE = re.compile(r"edgeveil_([a-z_]+)(\{[^}]*\})? ([-+.0-9e]+)", re.ASCII)


def _figures(page: str) -> Dict[str, float]:
    found: Dict[str, List[float]] = {}
    for name, labels, value in (match.groups("") for match in map(_SAMPLE.fullmatch, page.splitlines()) if match):
        for key in (name, name + labels):
            if key in _FIGURES:
                found.setdefault(key, []).append(float(value))
                break
    return {name: many(found[key]) for key, (name, many) in _FIGURES.items() if key in found}


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


STALE_S = 5.0  # without a new set for this long, /readyz fails
PORT_AGAIN_S = 30.0


class Status(object):
    """Reads its ``Service``. ``live``, ``ready``, ``healthz`` and ``metrics`` answer the pages."""

    def __init__(self, service: Any) -> None:
        self.service, self.log = service, service.log
        self._place = place_of(service.settings.health)
        self._pages: Optional[HealthPages] = None
        self._again_s = 0.0
        self._audit: Tuple[Any, Dict[str, float]] = (None, {})

    def log_start(self) -> None:
        """Write the bundle with its warnings to stderr, and what starts to the log."""
        service = self.service
        announce(service.bundle)
        self.log.say(
            "start",
            message="one process perturbs, without a network; this one sends",
            bundle=service.bundle.manifest.name,
            source=without_secrets(service.settings.source),
            sinks=", ".join(without_secrets(text) for text in service.settings.sink),
            ticks_per_s=1 / service.plan.tick_s,
            slots=service.plan.slots,
            record_bytes=service.layout.size,
        )
        for line in traffic.lines(service.settings.sink, service.bundle.manifest, service.plan):
            self.log.say("traffic", message=line)
        if service.bundle.manifest.perturber.identity_allowed:
            self.log.say("identity-allowed", message=IDENTITY_ALLOWED)
        if service.settings.camera_aid:
            self.log.say(
                "camera-aid",
                message="the camera aid is on for 15 minutes: coarse levels of the raw picture go to the preview page",
            )

    def log_ready(self, facts: Dict[str, Any]) -> None:
        """Log what runs, how fast and how it is isolated; ``facts`` are those of the inside's note."""
        service = self.service
        backends = ["{backend} {version}".format(**one) for one in (service.info.get("backends") or {}).values()]
        set_s = float(facts.get("set_ms") or 0) / 1e3
        self.log.say(
            "ready",
            message="{} by {}, on {}".format(
                service.info.get("artefact"), ", ".join(backends) or "numpy", service.info.get("device")
            ),
            expected_per_s=min(1 / service.plan.tick_s, 1 / set_s if set_s else 1 / service.plan.tick_s),
            isolation=service.isolation,
            memory_locked=bool(facts.get("locked")),
        )
        warning = self._audit_warning()
        if warning:
            # The inside reports it too, on a stderr that is closed.
            self.log.say("audit", message=warning)
        if service.isolation == CONVENTION:
            self.log.say(
                "isolation",
                message="*** ISOLATION BY CONVENTION ONLY: this system gave neither a network namespace nor a seccomp "
                "filter, so only its own code keeps the inside off the network. ***",
            )

    def _audit_warning(self) -> str:
        """A warning if an accelerator runs what was audited, if at all, on a processor only; else empty."""
        info = self.service.info
        return NOT_AUDITED_ON.format(**info) if info.get("device", CPU) != CPU and not info.get("audited") else ""

    def notes(self) -> List[str]:
        """Warnings to show with the stream."""
        service = self.service
        notes = []
        if service.source.get("simulated"):
            notes.append("Simulated: a program generates this source.")
        if service.source.get("raw_on_network"):
            private = is_private(service.settings.source)
            others = ", encrypted" if private else ", where others can read them"
            notes.append("Raw pictures reach this device over a network{}.".format(others))
        if service.bundle.manifest.perturber.identity_allowed:
            notes.append(IDENTITY_ALLOWED[0].upper() + IDENTITY_ALLOWED[1:] + ".")
        if service.trust_watch.problem:
            notes.append("Nothing new is accepted: {}".format(service.trust_watch.problem))
        warning = self._audit_warning()
        if warning:
            notes.append(warning[0].upper() + warning[1:] + ".")
        if service.isolation == CONVENTION:
            notes.append("Only its own code keeps the process with the raw pictures off the network.")
        return notes

    def open_pages(self, now: float) -> None:
        """Open the pages if they are wanted and not open yet; if their port is taken, try again from time to time."""
        service = self.service
        if self._pages is not None or self._place is None or now < self._again_s:
            return
        try:
            self._pages = HealthPages(self._place, self)
        except OSError as error:
            self._again_s = now + PORT_AGAIN_S
            service.counters.add("fault:port")
            self.log.say(
                "port",
                message="cannot listen on {}:{}: {}. The service runs without its health pages and tries again; name "
                "another with --health, or off.".format(
                    self._place.host, self._place.port, (error.strerror or "in use").lower()
                ),
            )

    def live(self) -> str:
        """An empty text while the loop turns, else what is wrong."""
        service = self.service
        age = service.clock() - service.turned_s
        return "" if age < max(STALE_S, 2 * service.plan.tick_s) else "the loop has not turned for {:.0f} s".format(age)

    def ready(self) -> str:
        """An empty text while new sets are emitted, else what is wrong."""
        service = self.service
        if service.is_live is False:
            return self.live()
        if not service.begun or not service.counters.get("frames-out"):
            return "no new set was emitted yet"
        age = service.clock() - service.emission.fresh_s
        return "" if age < max(STALE_S, 3 * service.plan.tick_s) else "nothing new for {:.0f} s".format(age)

    def healthz(self) -> Dict[str, Any]:
        """What runs, how it is isolated, and its state."""
        service = self.service
        return {
            "bundle": service.bundle.manifest.name,
            "info": service.info,
            "isolation": service.isolation,
            "identity_allowed": service.bundle.manifest.perturber.identity_allowed,
            "trust": service.trust_watch.problem or "ok",
            "index": service.trust_watch.index,
            "source": service.source,
            "state": service.emission.state,
            "clock": clock_word(),
            "aims": service.trust_watch.aims.document(),
            "shift": service.shift.document(),
            "live": self.live() or "ok",
            "ready": self.ready() or "ok",
            "frames_in": service.link.inside.get("frames-in"),
            "frames_out": service.counters.get("frames-out"),
            "dropped": service.drops(),
            "slots": service.plan.slots,
            "tick_s": service.plan.tick_s,
            "receivers": service.sinks.receivers(),
        }

    def _audited(self) -> Dict[str, float]:
        """What the audit of what runs here found: the attack's figure and chance; nothing where there is none."""
        service = self.service
        runs = {name: service.info[name] for name in ("artefact", "device") if name in service.info}
        key = (service.link.manifest_sha256, runs)
        if self._audit[0] != key:  # an audit is a long document
            figures = about(service.bundle.manifest, service.bundle.audit, runs)
            gauges = {"audit-" + name: figures[name] for name in ("attack", "chance") if figures[name] is not None}
            self._audit = (key, gauges)
        return self._audit[1]

    def metrics(self) -> Iterator[str]:
        """Lines for Prometheus."""
        service = self.service
        gauges = {
            "ready": float(not self.ready()),
            "degraded": float(service.emission.state == "degraded"),
            "spent": float(service.emission.state == "spent"),
            "tick-seconds": service.plan.tick_s,
            "fresh-age-seconds": service.clock() - service.emission.fresh_s,
            "identity-allowed": float(service.bundle.manifest.perturber.identity_allowed),
            "isolated": float(service.isolation not in ("", CONVENTION)),
            "set-seconds": service.link.inside.get("last-busy-us") / 1e6,
            **service.shift.gauges(),
            **service.trust_watch.gauges(),
            **service.trust_watch.aims.gauges(),
            **self._audited(),
        }
        board = board_gauges(service.link.manifest_sha256)
        counts = service.link.inside.all(), service.counters.all(), service.sinks.counts_by_sink()
        rules, last = service.bundle.manifest.counts, None if service.counts is None else service.counts.last
        counted = count_samples(rules, last) if rules is not None and last is not None else ()
        return lines(itertools.chain(samples(*counts, gauges, board), counted))

    def close(self) -> None:
        """Close the pages."""
        if self._pages is not None:
            self._pages.close()
