"""``edgeveil-edge run`` with a live source or sink: the outside, from its start to its drained end.

One thread waits for records, notes, signals and the next tick; pages and sinks have their own. What it owns are
descriptors, counters and perturbed frames: no raw frame ever gets here.
"""

import os
import re
import select
import signal
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional

from edge_runtime import hardening, health
from edge_runtime.attach import Attached
from edge_runtime.backends.device import CPU
from edge_runtime.counters import AIM, DROP, Counters
from edge_runtime.errors import BadInput, DeviceFailed, EdgeVeilError, PrivacyStop
from edge_runtime.isolation import CONVENTION
from edge_runtime.logs import Log
from edge_runtime.manifest import PRIVACY_MEMBER
from edge_runtime.notify import Notifier
from edge_runtime.outside import Emission, SinkSet
from edge_runtime.record import Layout, Record
from edge_runtime.schedule import Schedule, schedule
from edge_runtime.supervise import Event, InsideFailed, Supervisor

FILES = ("npz", "csv", "arff", "images", "video")  # sources and sinks that keep numbers; all others are live
DRAIN_S = 5.0  # from SIGTERM to the end of the process
STALE_S = 5.0  # without anything new for so long, /readyz is red
PORT_AGAIN_S = 30.0
PAGES_EVERY_S = 0.2


def wanted(settings: Dict[str, Any]) -> bool:
    """Whether these settings ask for the service; else it is file to file, in one process."""
    if settings["inside-at"]:
        return True
    live = [text for text in [settings["source"]] + settings["sink"] if text.partition(":")[0] not in FILES]
    return bool(live) or settings["realtime"] or settings["repeat"]


def run(settings: Dict[str, Any], **parts: Any) -> Dict[str, Any]:
    """Run the service until its source ends, its time is over or it is told to stop; returns the run's document.

    ``exit_code`` in it is what the command ends with. ``parts`` are for tests. Raises what ended it early.
    """
    hardening.no_core_dumps()
    log = Log(settings["log"])
    service = Service(settings, log, **parts)
    try:
        return service.run()
    except EdgeVeilError as error:
        log.say("failed", message=str(error), exit_code=error.exit_code)
        raise


class Service(object):
    """The outside and all that it looks after. ``live``, ``ready``, ``healthz`` and ``metrics`` answer its pages."""

    def __init__(
        self,
        settings: Dict[str, Any],
        log: Log,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        notifier: Optional[Notifier] = None,
    ) -> None:
        self.settings, self.log, self._clock, self._wall = settings, log, clock, wall
        self._notifier = notifier or Notifier()
        self.counters = Counters()
        self._bundle_handle, self.bundle = _open_bundle(settings)
        manifest = self.bundle.manifest
        self.plan = schedule(manifest, settings["fps"])
        self._layout = Layout(manifest["outputs"])
        self._sinks = SinkSet(self.counters, log.say)
        self.emission = Emission(self.plan, self._sinks, self.counters, log.say, clock=clock, wall=wall)
        self.supervisor: Any = (
            self._attached()
            if settings["inside-at"]
            else Supervisor(
                inside_settings(settings),
                self._bundle_handle,
                self._layout,
                restarts=settings["restarts"],
                counters=self.counters,
                say=log.say,
                manifest_sha256=self.bundle.manifest_sha256,
                ended=self._inside_ended,
                fetch=fetch_settings(settings, manifest),
                clock=clock,
            )
        )
        self._pages: Optional[health.HealthPages] = None
        self._pages_again_s = 0.0
        self._live: Optional[bool] = None
        self._early: List[Record] = []
        self._begun, self._emitting, self._told_ready = False, True, False
        self._info: Dict[str, Any] = {}
        self._isolation = ""
        self._source: Dict[str, Any] = {}
        self._signals: List[int] = []
        self._stopped = "end"
        self._turned_s = clock()
        self._pages_told_s = 0.0

    def _attached(self) -> Attached:
        os.close(self._bundle_handle)
        return Attached(
            self.settings["inside-at"],
            self._layout,
            counters=self.counters,
            say=self.log.say,
            manifest_sha256=self.bundle.manifest_sha256,
            ended=self._inside_ended,
        )

    def run(self) -> Dict[str, Any]:
        """See ``run`` of this module."""
        started = self._clock()
        woken, wake = os.pipe()
        try:
            with _Signals(wake, self._signals):
                self._say_what_will_run()
                try:
                    self.supervisor.start()
                    self._loop(woken)
                except BaseException as error:
                    self._end(failed=error)
                    raise
                self._end()
        finally:
            os.close(woken)
            os.close(wake)
        return dict(
            self._info,
            schema=1,
            frames_in=self.supervisor.inside.get("frames-in"),
            frames_out=self.counters.get("frames-out"),
            dropped=self.drops(),
            seconds=self._clock() - started,
            stopped=self._stopped,
            exit_code=130 if signal.SIGINT in self._signals else 0,
        )

    def drops(self) -> Dict[str, int]:
        """Frames that went in and did not come out, by reason."""
        return health.all_drops(self.supervisor.inside.all(), self.counters.all())

    # the loop

    def _loop(self, woken: int) -> None:
        while not self.supervisor.ended:
            self._turned_s = now = self._clock()
            if self._emitting and self._should_stop(now):
                self._emitting = False
                self._notifier.say("STOPPING=1")
                self.log.say("stop", message="finishing what is in hand")
                self.supervisor.stop()
            self._wait(woken, now)
            for event in self.supervisor.poll():
                self._hear(event)
            for record in self.supervisor.records():
                self._take(record)
            self._begin()
            # The last tick is the one before the end was asked for, however long the inside takes to end.
            if self._begun and self._emitting and self._clock() >= self.emission.due_s():
                self.emission.tick()
                self._tell_pages(now)
            self._keep_pages(now)
            self._tell_manager(now)
            if signal.SIGHUP in self._signals:
                self._signals.remove(signal.SIGHUP)
                self._reload()

    def _wait(self, woken: int, now: float) -> None:
        until = min(self.emission.due_s() - now, 0.25) if self._begun and self._emitting else 0.25
        handles = self.supervisor.handles() + [woken]
        if select.select(handles, [], [], max(until, 0.0))[0] == [woken]:
            os.read(woken, 64)

    def _should_stop(self, now: float) -> bool:
        if signal.SIGTERM in self._signals or signal.SIGINT in self._signals:
            self._stopped = "interrupted"
            return True
        duration = self.settings["duration"]
        return bool(duration and self._begun and now - self.emission.began_s >= duration)

    def _hear(self, event: Event) -> None:
        facts = event.facts
        if event.name == "ready":
            self._info, self._isolation = facts.get("info") or {}, str(facts.get("isolation"))
            if self.settings["inside-at"] and self._info.get("manifest_sha256") != self.supervisor.manifest_sha256:
                # Its manager started it anew, with a bundle that came meanwhile.
                self._reload()
            if self._info.get("manifest_sha256") != self.supervisor.manifest_sha256:
                raise PrivacyStop("the inside runs another bundle than was verified here; nothing more leaves")
            self._say_ready(facts)
        elif event.name == "source":
            self._source = facts
            if self._live is None:
                self._live = bool(facts.get("live"))
            self.log.say("source", **{key: facts.get(key) for key in ("name", "live", "simulated", "raw_on_network")})
        elif event.name == "fault":
            self.log.say("fault", kind=str(facts.get("word"))[:40], message=str(facts.get("message"))[:400])
        elif event.name == "ended" and facts.get("code") == PrivacyStop.exit_code:
            # At once: what it sent before is not to leave either.
            raise InsideFailed(str(facts.get("message")), PrivacyStop.exit_code)

    def _take(self, record: Record) -> None:
        if not self._sinks.opened:
            self._early.append(record)
        elif self._live:
            self.emission.take(record)
        elif record.state == 0:
            self.counters.add("sets-in")
            self._sinks.write([record.frame])
            self.counters.add("frames-out")

    def _begin(self) -> None:
        """Sinks are opened when the source is: before that, nobody is told of a stream, and no folder is made."""
        if self._live is None or self._begun:
            return
        if not self._sinks.opened:
            self._sinks.open(self._open_sinks())
        early, self._early = self._early, []
        for record in early:
            self._take(record)
        if self._live and self.emission.ready:
            self.emission.begin()
            self._begun = True

    def _inside_ended(self) -> None:
        """One inside has ended and its pipe is empty: whatever it had in hand is lost, and counted."""
        self.emission.forget_coming()
        counts = self.supervisor.inside.all()
        dropped = sum(health.all_drops(counts, {}).values()) + self.counters.get(DROP + "inside-ended")
        lost = counts.get("frames-in", 0) - dropped - self.counters.get("sets-in")
        if lost > 0:
            self.counters.add(DROP + "inside-ended", lost)

    def _reload(self) -> None:
        self._notifier.say("RELOADING=1", "MONOTONIC_USEC={}".format(int(self._clock() * 1e6)))
        try:
            handle, bundle = _open_bundle(self.settings)
            if Layout(bundle.manifest["outputs"]).columns != self._layout.columns or self.plan != schedule(
                bundle.manifest, self.settings["fps"]
            ):
                os.close(handle)
                raise BadInput(
                    "the new bundle lets out something else, or at other times: start the service again for it"
                )
        except EdgeVeilError as error:
            self.counters.add("fault:reload")
            self.log.say("reload-refused", message="{} The bundle from before runs on.".format(error))
        else:
            self.log.say("reload", bundle=bundle.manifest["name"], manifest_sha256=bundle.manifest_sha256)
            self.supervisor.reload(handle, bundle.manifest_sha256)
        self._notifier.say("READY=1")

    # the end

    def _end(self, failed: Optional[BaseException] = None) -> None:
        self._notifier.say("STOPPING=1")
        deadline = self._clock() + DRAIN_S - 1.0
        self.supervisor.kill()
        self.emission.drain()
        work = self._sinks.discard if getattr(failed, "exit_code", 0) == PrivacyStop.exit_code else self._sinks.close
        errors: List[BaseException] = []

        def close() -> None:
            try:
                work()
            except DeviceFailed as error:
                errors.append(error)

        # A sink that cannot end must not keep the process: what it had spooled is on its disk.
        thread = threading.Thread(target=close, name="closing", daemon=True)
        thread.start()
        thread.join(max(deadline - self._clock(), 1.0))
        if thread.is_alive():
            self.log.say("stop", message="a sink did not end in time; what it had not sent is left behind")
        if self._pages is not None:
            self._pages.close()
        if errors and failed is None:
            raise errors[0]

    # what is told

    def _say_what_will_run(self) -> None:
        from edge_runtime.perturber import announce

        announce(self.bundle)
        self.log.say(
            "start",
            message="one process perturbs, without a network; this one sends",
            bundle=self.bundle.manifest["name"],
            source=without_secrets(self.settings["source"]),
            sinks=", ".join(without_secrets(text) for text in self.settings["sink"]),
            ticks_per_s=1 / self.plan.tick_s,
            slots=self.plan.slots,
            record_bytes=self._layout.size,
        )

        if self.settings["aim"]:
            self.log.say(
                "aim",
                message="aiming is on for 15 minutes: coarse figures of the raw picture go to the preview page",
            )

    def _say_ready(self, facts: Dict[str, Any]) -> None:
        backends = ["{backend} {version}".format(**one) for one in (self._info.get("backends") or {}).values()]
        set_s = float(facts.get("set_ms") or 0) / 1e3
        self.log.say(
            "ready",
            message="{} by {}, on {}".format(
                self._info.get("artefact"), ", ".join(backends) or "numpy", self._info.get("device")
            ),
            expected_per_s=min(1 / self.plan.tick_s, 1 / set_s if set_s else 1 / self.plan.tick_s),
            isolation=self._isolation,
            memory_locked=bool(facts.get("locked")),
        )
        if self._isolation == CONVENTION:
            self.log.say(
                "isolation",
                message="*** ISOLATION BY CONVENTION ONLY: neither a network namespace nor a seccomp filter could be "
                "had, so nothing but its own code keeps the inside off the network. ***",
            )

    def _tell_manager(self, now: float) -> None:
        self._notifier.alive(now)
        if not self._told_ready and (self.counters.get("frames-out") or self._live is False):
            self._told_ready = True
            self._notifier.say("READY=1", "STATUS=perturbing")

    def _keep_pages(self, now: float) -> None:
        if self._pages is not None or self.settings["health"] == "off" or now < self._pages_again_s:
            return
        host, port = address(self.settings["health"])
        try:
            self._pages = health.HealthPages(host, port, self)
        except OSError as error:
            self._pages_again_s = now + PORT_AGAIN_S
            self.counters.add("fault:port")
            self.log.say(
                "port",
                message="{}:{} cannot be had: {}. The service runs without its health pages and asks again; name "
                "another with --health, or off.".format(host, port, (error.strerror or "in use").lower()),
            )

    def _tell_pages(self, now: float) -> None:
        """What pages on this device show beside the stream; a few times a second is as often as anybody looks."""
        if now < self._pages_told_s + PAGES_EVERY_S:
            return
        self._pages_told_s = now
        inside = self.supervisor.inside.all()
        levels = {name[len(AIM) :]: value for name, value in inside.items() if name.startswith(AIM)}
        self._sinks.local(self.drops(), levels, inside.get("last-latency-us", 0) / 1e3)

    def _open_sinks(self) -> Dict[str, Any]:
        from edge_runtime.sinks import open_sink

        manifest = self.bundle.manifest
        options = {
            "say": lambda text: self.log.say("sink", message=text),
            "privacy": self.bundle.members.get(manifest["privacy"]["file"]),
            "notes": self._notes(),
        }
        sinks: Dict[str, Any] = {}
        try:
            for text in self.settings["sink"]:
                name = without_secrets(text)
                if name in sinks:
                    raise BadInput("expected every sink once; {} is there twice".format(name))
                sinks[name] = open_sink(text, manifest["outputs"], manifest, options)
        except BaseException:
            for sink in sinks.values():
                sink.close() if sink.live else sink.discard()
            raise
        return sinks

    def _notes(self) -> List[str]:
        """What nobody who looks at the stream should overlook."""
        notes = []
        if self._source.get("simulated"):
            notes.append("Simulated: this source is made up by a program.")
        if self._source.get("raw_on_network"):
            notes.append("Raw pictures reach this device over a network: whoever listens there sees them.")
        if self._info.get("device", CPU) != CPU and not self._info.get("audited"):
            from edge_runtime.perturber import NOT_AUDITED_ON

            text = NOT_AUDITED_ON.format(**self._info)
            notes.append(text[0].upper() + text[1:] + ".")
        if self._isolation == CONVENTION:
            notes.append("Nothing but its own code keeps the process with the raw pictures off the network.")
        return notes

    # what the pages ask

    def live(self) -> str:
        """An empty text while the loop turns, else what is wrong."""
        age = self._clock() - self._turned_s
        return "" if age < max(STALE_S, 2 * self.plan.tick_s) else "the loop has not turned for {:.0f} s".format(age)

    def ready(self) -> str:
        """An empty text while something new leaves, else what is wrong."""
        if self._live is False:
            return self.live()
        if not self._begun or not self.counters.get("frames-out"):
            return "nothing new has left yet"
        age = self._clock() - self.emission.fresh_s
        return "" if age < max(STALE_S, 3 * self.plan.tick_s) else "nothing new for {:.0f} s".format(age)

    def healthz(self) -> Dict[str, Any]:
        """What runs, how it is kept apart, and how it is."""
        return {
            "bundle": self.bundle.manifest["name"],
            "info": self._info,
            "isolation": self._isolation,
            "source": self._source,
            "state": self.emission.state,
            "live": self.live() or "ok",
            "ready": self.ready() or "ok",
            "frames_in": self.supervisor.inside.get("frames-in"),
            "frames_out": self.counters.get("frames-out"),
            "dropped": self.drops(),
            "slots": self.plan.slots,
            "tick_s": self.plan.tick_s,
        }

    def metrics(self) -> Iterator[str]:
        """Lines for Prometheus."""
        gauges = {
            "ready": float(not self.ready()),
            "degraded": float(self.emission.state == "degraded"),
            "tick-seconds": self.plan.tick_s,
            "fresh-age-seconds": self._clock() - self.emission.fresh_s,
            "isolated": float(self._isolation not in ("", CONVENTION)),
            "set-seconds": self.supervisor.inside.get("last-busy-us") / 1e6,
        }
        return health.metrics(self.supervisor.inside.all(), self.counters.all(), self._sinks.counts(), gauges)


class _Signals(object):
    """SIGTERM, SIGINT and SIGHUP are put on a list and wake the loop."""

    def __init__(self, wake: int, came: List[int]) -> None:
        self._wake, self._came = wake, came
        self._old: Dict[int, Any] = {}

    def __enter__(self) -> "_Signals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                self._old[number] = signal.signal(number, self._mark)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _mark(self, number: int, _frame: Any) -> None:
        self._came.append(number)
        os.write(self._wake, b"!")


def inside_settings(settings: Dict[str, Any]) -> Dict[str, Any]:
    """What the inside is told of the settings; nothing about sinks."""
    from edge_runtime.sources import on_network

    source = settings["source"]
    return {
        # What fetches it knows the credentials; the inside has no use for them.
        "source": without_secrets(source) if on_network(source) else source,
        "trust": os.path.abspath(settings["trust"]),
        "backend": settings["backend"],
        "artefact": settings["artefact"],
        "threads": settings["threads"],
        "device": settings["device"],
        "strict": settings["strict"],
        "realtime": settings["realtime"],
        "repeat": settings["repeat"],
        "fps": settings["fps"],
        "frames": settings["frames"],
        "aim": settings["aim"],
        "max_latency_s": settings["max-latency"],
        "recheck_s": settings["recheck"],
        "hang_after_s": settings["hang-after"],
    }


def fetch_settings(settings: Dict[str, Any], manifest: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """What the fetching process is told, None where the source needs none.

    Raises ``BadInput`` where raw pictures would travel so that others can read them, and nobody said that they may.
    """
    from edge_runtime.sources import address as addresses
    from edge_runtime.sources import on_network
    from edge_runtime.sources.base import expected

    source = settings["source"]
    if not on_network(source):
        return None
    if not (addresses.is_private(source) or settings["accept-raw-on-network"]):
        raise BadInput(
            "raw pictures from {} would cross a network where others can read them: use a camera on this device, "
            "https://, or say --accept-raw-on-network".format(addresses.parse(source).shown)
        )
    return {"source": source, "sensor": expected(manifest["input"], manifest["capture"])}


def without_secrets(text: str) -> str:
    """A source or sink as it may be printed: what stands before an @ or behind a ? of an address is left out."""
    if "://" not in text:
        return text.partition("?")[0] if text.startswith("preview:") else text
    return re.sub("//[^/]*@", "//", text.partition("?")[0])


def address(text: str) -> Any:
    """``HOST:PORT`` as a pair; raises ``BadInput``."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise BadInput("expected --health as HOST:PORT, such as 127.0.0.1:9464, or off; got {!r}".format(text))
    return host.strip("[]") or "127.0.0.1", int(port)


def _open_bundle(settings: Dict[str, Any]) -> Any:
    """A descriptor of the bundle's file, and what was verified of its bytes."""
    from edge_runtime.bundle import read_bundle
    from edge_runtime.inside import read_all
    from edge_runtime.trust import Trust

    trust = Trust.open(settings["trust"])
    # Verified by its path first: that says best what is wrong with it.
    bundle = read_bundle(settings["bundle"], trust)
    handle = os.open(settings["bundle"], os.O_RDONLY | os.O_CLOEXEC)
    if read_bundle(read_all(handle), trust).manifest_sha256 != bundle.manifest_sha256:
        raise BadInput("the bundle {} is being written to: try again".format(settings["bundle"]))
    # The models are the inside's business, and their bytes need not be in memory twice.
    kept = {name: data for name, data in bundle.members.items() if name == PRIVACY_MEMBER}
    return handle, bundle._replace(members=kept)


__all__ = ["FILES", "Schedule", "Service", "run", "wanted"]
