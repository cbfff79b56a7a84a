"""The state of a service, for its log and its health pages."""

from typing import Any, Dict, Iterator, List, Optional, Tuple

from edgeveil.edge_runtime.bundle.audit_scope import IDENTITY_ALLOWED, NOT_AUDITED_ON, announce
from edgeveil.edge_runtime.camera_address import is_private
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.manifest.schema import PRIVACY_MEMBER
from edgeveil.edge_runtime.outside import health
from edgeveil.edge_runtime.outside.host.board_health import board_gauges
from edgeveil.edge_runtime.sandbox.isolation import CONVENTION
from edgeveil.edge_runtime.shift.distance import SHIFTED
from edgeveil.edge_runtime.sinks.network.about import about
from edgeveil.edge_runtime.sinks.uri import without_secrets

STALE_S = 5.0  # without a new set for this long, /readyz fails
PORT_AGAIN_S = 30.0


class Status(object):
    """Reads its ``Service``. ``live``, ``ready``, ``healthz`` and ``metrics`` answer the pages."""

    def __init__(self, service: Any) -> None:
        self.service, self.log = service, service.log
        self._place = health.place_of(service.settings.health)
        self._pages: Optional[health.HealthPages] = None
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
            self._pages = health.HealthPages(self._place, self)
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
            "shift": service.shift.document(),
            "live": self.live() or "ok",
            "ready": self.ready() or "ok",
            "frames_in": service.link.inside.get("frames-in"),
            "frames_out": service.counters.get("frames-out"),
            "dropped": service.drops(),
            "slots": service.plan.slots,
            "tick_s": service.plan.tick_s,
        }

    def _audited(self) -> Dict[str, float]:
        """What the audit of what runs here found: the attack's figure and chance; nothing where there is none."""
        service = self.service
        runs = {name: service.info[name] for name in ("artefact", "device") if name in service.info}
        key = (service.link.manifest_sha256, runs)
        if self._audit[0] != key:  # an audit is a long document
            found = about(service.bundle.manifest, service.bundle.members.get(PRIVACY_MEMBER), runs)
            gauges = {"audit-" + name: found[name] for name in ("attack", "chance") if found[name] is not None}
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
            "label-only": float(service.shift.label_only),
            **service.trust_watch.gauges(),
            **self._audited(),
        }
        if service.shift.last is not None:
            gauges.update({"shift": service.shift.last.distance, "shift-low": service.shift.last.low})
            gauges["shifted"] = float(service.shift.last.state == SHIFTED)
        board = board_gauges(service.link.manifest_sha256)
        counts = service.link.inside.all(), service.counters.all(), service.sinks.counts_by_sink()
        yield from health.metrics(*counts, gauges, board)
        rules, last = service.bundle.manifest.counts, None if service.counts is None else service.counts.last
        if rules is not None and last is not None:
            yield from health.count_metrics(rules, last)

    def close(self) -> None:
        """Close the pages."""
        if self._pages is not None:
            self._pages.close()
