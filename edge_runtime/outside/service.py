"""``edgeveil-edge run`` with a live source or sink: the outside, from its start until its sinks are drained.

One thread waits for records, notes, signals and the next tick; pages and sinks have their own. It holds descriptors,
counters and perturbed frames, never a raw frame.
"""

import os
import select
import signal
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from edgeveil.edge_runtime import ext
from edgeveil.edge_runtime.bundle.opened import Opened
from edgeveil.edge_runtime.bundle.reader import Bundle, open_file, read_all, read_bundle
from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.config import Settings
from edgeveil.edge_runtime.device import open_limit_s
from edgeveil.edge_runtime.errors import SPENT, BadInput, EdgeVeilError, LimitNotMet, PrivacyStop
from edgeveil.edge_runtime.ipc.counters import DROP, LEVEL, Counters, schedule
from edgeveil.edge_runtime.ipc.notes import Event
from edgeveil.edge_runtime.ipc.record import Counted, Layout, PaidDraws, Record
from edgeveil.edge_runtime.kinds import check_sensor, check_shape
from edgeveil.edge_runtime.machine import clock_synchronised
from edgeveil.edge_runtime.manifest.manifest import expected
from edgeveil.edge_runtime.outside import emission
from edgeveil.edge_runtime.outside.board_health import Manager, Signals
from edgeveil.edge_runtime.outside.metrics import all_drops
from edgeveil.edge_runtime.outside.status import Log, Status
from edgeveil.edge_runtime.outside.supervisor import InsideFailed, LinkOwner, open_link
from edgeveil.edge_runtime.outside.trust_watch import TrustWatch
from edgeveil.edge_runtime.sandbox import hardening
from edgeveil.edge_runtime.sinks import SinkGroup, open_sinks
from edgeveil.edge_runtime.sinks.uri import without_secrets

# The bundle of a service: this process opens and verifies its file once.


def open_bundle(path: str, trust: Trust, source: str) -> Tuple[int, Opened]:
    """Open and verify the bundle at ``path`` by ``trust``.

    Raises as ``read_bundle`` does, and ``BadInput`` where the bundle is for other frames than ``source`` gives.
    Returns the file's descriptor, for the inside, which verifies the same file itself; and the bundle without its
    members: the models belong to the inside and need not be in memory twice.
    """
    handle = open_file(path)
    try:
        bundle = read_bundle(read_all(handle), trust)
        manifest = bundle.manifest
        check_sensor(source, manifest.input.sensor)
        check_shape(source, expected(manifest.input, manifest.capture)["shape"])
    except BaseException:
        os.close(handle)
        raise
    return handle, Opened(bundle._replace(members={}), trust)


# How the perturbed lines of a file leave: each if it is paid for.


class FileLines(object):
    """``allowance`` has ``take_one``, ``sinks`` has ``write_set``."""

    def __init__(self, allowance: Any, sinks: Any, counters: Counters) -> None:
        self._allowance, self._sinks, self._counters = allowance, sinks, counters
        self._draws = PaidDraws()

    def release(self, record: Record) -> None:
        """Let it leave, or count why not."""
        self._counters.add("sets-in")
        if self._draws.pay([record.frame.drawn], lambda _one: self._allowance.take_one()):
            self._sinks.write_set([record.frame])
            self._counters.add("frames-out")
        else:
            self._counters.add(DROP + SPENT)


# Work at the end of a service that must not keep its process alive.


def done_within(work: Callable[[], None], seconds: float) -> Tuple[bool, List[BaseException]]:
    """Whether ``work`` ended within so many seconds, and the error that it ended with, if any.

    It goes on in a thread of its own where it did not, and ends with the process.
    """
    errors: List[BaseException] = []

    def run() -> None:
        try:
            work()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="closing", daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive(), errors


DRAIN_S = 5.0  # from SIGTERM to the end of the process
WAIT_S = 0.25  # the longest turn of the loop
PAGES_EVERY_S = 0.2
OPEN_MARGIN_S = 60.0  # for the processes to start, and the camera to open


def run(settings: Settings) -> Dict[str, Any]:
    """Run the service until its source ends, its time is over or a signal stops it; returns the run's document.

    ``exit_code`` in it is the command's exit code. Raises the error that ended it early.
    """
    hardening.no_core_dumps()
    log = Log(settings.log)
    try:
        return Service(settings, log).run()
    except EdgeVeilError as error:
        log.say("failed", message=str(error), exit_code=error.exit_code)
        raise


class Service(object):
    """The outside and its parts. ``status`` reads the attributes without an underscore."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self.settings, self.log, self.clock = settings, log, time.monotonic
        self._started_s = self.turned_s = self.clock()
        self._manager = Manager(self._started_s, open_limit_s(settings.device) + OPEN_MARGIN_S)
        self.counters = Counters()
        self.trust_watch = TrustWatch(settings.trust, log.say, self.clock)
        handle, opened = open_bundle(settings.bundle, self.trust_watch.read(), settings.source)
        bundle, manifest = opened.bundle, opened.bundle.manifest
        self.plan = schedule(manifest, settings.fps)
        self.layout = Layout.from_manifest(manifest)
        self.sinks = SinkGroup({}, emission.count_failures(self.counters, log.say))
        self.promised = emission.promises(opened)
        self.allowance = emission.open_allowance(settings, opened, self.plan)
        self._verified: Dict[str, Tuple[Bundle, Any]] = {}  # the shift watch of each, by the hash of its manifest
        self._accept(opened)
        self.emission = emission.Emission(
            self.plan,
            self.sinks,
            self.counters,
            log.say,
            clock=self.clock,
            wall=time.time,
            synchronised=clock_synchronised,
            take=self.allowance.take,
            spent=self.allowance.spent,
            guard=lambda new, flat: self.shift.guard(new, flat),
            aiming=self.trust_watch.aims.goes_on,
        )
        self.count_allowance = emission.open_count_allowance(settings, opened)
        pay = {"take": self.count_allowance.take, "spent": self.count_allowance.spent}
        pay["label_only"] = lambda: self.shift.label_only
        self.counts = manifest.counts and emission.CountEmission(
            manifest.counts, self.sinks, self.counters, clock=self.clock, **pay
        )
        self._lines = FileLines(self.allowance, self.sinks, self.counters)
        owner = LinkOwner(self.layout, self.counters, log.say, bundle.manifest_sha256, on_end=self._inside_ended)
        self.link = open_link(settings, manifest, handle, owner, clock=self.clock)
        self.status = Status(self)
        self.is_live: Optional[bool] = None
        self._early: List[Record] = []
        self.begun, self._emitting = False, True
        self.info: Dict[str, Any] = {}
        self.isolation = ""
        self.source: Dict[str, Any] = {}
        self._signals: List[int] = []
        self._stopped = "end"
        self._pages_updated_s = 0.0
        self._shown_releases = ("", "")

    @property
    def bundle(self) -> Bundle:
        """The one that the inside runs: of a reload that failed, the previous one."""
        return self._verified[self.link.manifest_sha256][0]

    @property
    def shift(self) -> Any:
        """The watch of that bundle's codes."""
        return self._verified[self.link.manifest_sha256][1]

    def run(self) -> Dict[str, Any]:
        """See ``run`` of this module."""
        started = self.clock()
        with Signals() as signals:
            self._signals = signals.came
            self.status.log_start()
            try:
                self.allowance.start(self.link.inside)
                self.count_allowance.start(self.link.inside)
                self.link.start()
                self._loop(signals.handle)
            except BaseException as error:
                self._end(failed=error)
                raise
            self._end()
        return dict(
            self.info,
            schema=1,
            frames_in=self.link.inside.get("frames-in"),
            frames_out=self.counters.get("frames-out"),
            dropped=self.drops(),
            seconds=self.clock() - started,
            stopped=self._stopped,
            sinks={name: delivery._asdict() for name, delivery in self.sinks.deliveries().items()},
            manifest=self.bundle.manifest,
            exit_code=self._exit_code(),
        )

    def _exit_code(self) -> int:
        if signal.SIGINT in self._signals:
            return 130
        # A stream goes on without a budget; a file's frames are missing for want of it.
        missing = self.is_live is False and SPENT in self.drops()
        return LimitNotMet.exit_code if missing else 0

    def drops(self) -> Dict[str, int]:
        """Dropped frames, by reason."""
        return all_drops(self.link.inside.all(), self.counters.all())

    # the loop

    def _loop(self, woken: int) -> None:
        while not self.link.ended:
            self.turned_s = now = self.clock()
            if self._emitting and self._should_stop(now):
                self._emitting = False
                self._manager.stopping()
                self.log.say("stop", message="finishing the current frames")
                self.link.stop()
            ready = self._wait(woken)
            for event in self.link.poll(ready):
                self._handle_event(event)
            # Before the records: their number must not delay a tick. None follows a request to stop, however long the
            # inside takes to end.
            if self._ticking and self.clock() >= self.emission.due_s():
                tick_ns = self.emission.tick()
                if self.counts is not None:
                    self.counts.tick(self.emission.number - 1, tick_ns)
                self._update_pages(now)
            if ready and (not self._ticking or self.emission.quiet_s() > 0):
                for record in self.link.records():
                    self._handle_record(record)
            self._begin()
            self.status.open_pages(now)
            self._manager.alive(now)
            if self.counters.get("frames-out") or self.is_live is False:
                self._manager.ready("perturbing")
            reload = signal.SIGHUP in self._signals
            if reload:
                self._signals.remove(signal.SIGHUP)
                self._reload()
            self.trust_watch.check(self.bundle, now=reload)
            self._show_releases()

    @property
    def _ticking(self) -> bool:
        return self.begun and self._emitting

    def _wait(self, woken: int) -> List[int]:
        """Wait for the inside or a signal; from the slack before a tick on, for the tick, a note or a signal.

        Returns the descriptors of the inside that have something. A turn of the loop costs as much as a record.
        """
        ready: List[int] = []
        until_s = self.emission.quiet_s() if self._ticking else WAIT_S
        if until_s > 0:
            ready = select.select(self.link.handles() + [woken], [], [], min(until_s, WAIT_S))[0]
        if not ready and self._ticking and self.emission.quiet_s() <= 0:
            until_s = self.emission.due_s() - self.clock()
            handles = self.link.handles(records=False) + [woken]
            ready = select.select(handles, [], [], min(max(until_s, 0.0), WAIT_S))[0]
        if woken in ready:
            os.read(woken, 64)
            ready.remove(woken)
        return ready

    def _should_stop(self, now: float) -> bool:
        if signal.SIGTERM in self._signals or signal.SIGINT in self._signals:
            self._stopped = "interrupted"
            return True
        duration = self.settings.duration
        return bool(duration and self.begun and now - self.emission.start_s >= duration)

    def _handle_event(self, event: Event) -> None:
        facts = event.facts
        if event.name == "ready":
            self.info, self.isolation = facts.get("info") or {}, str(facts.get("isolation"))
            if self.settings.inside_at and self.info.get("manifest_sha256") != self.link.manifest_sha256:
                # Its manager restarted it, with a bundle that was installed meanwhile.
                self._reload()
            if self.info.get("manifest_sha256") != self.link.manifest_sha256:
                raise PrivacyStop("the inside runs another bundle than was verified here; no more frames are emitted")
            self.status.log_ready(facts)
        elif event.name == "source":
            self.source = facts
            if self.is_live is None:
                self.is_live = bool(facts.get("live"))
            if not self.is_live and self.counts is not None:
                self.log.say("counts", message="people are counted in a live source alone: no counts leave")
            self.log.say("source", **{key: facts.get(key) for key in ("name", "live", "simulated", "raw_on_network")})
        elif event.name == "waiting":
            self.log.say("waiting", message=str(facts.get("message"))[:400])
            # The service does what it can: a manager that waited longer would start it again, and again.
            self._manager.ready("waiting for its source")
        elif event.name == "fault":
            self.log.say("fault", kind=str(facts.get("word"))[:40], message=str(facts.get("message"))[:400])
        elif event.name == "ended" and facts.get("code") == PrivacyStop.exit_code:
            # At once: the records that it sent before must not be emitted either.
            raise InsideFailed(str(facts.get("message")), PrivacyStop.exit_code)

    def _handle_record(self, record: Union[Record, Counted]) -> None:
        if isinstance(record, Counted):
            if self.counts is not None and self.begun:
                self.counts.take(record)
        elif not self.sinks.sinks:
            self._early.append(record)
        elif self.is_live:
            self.emission.take(record)
        elif record.state == 0:
            self._lines.release(record)

    def _begin(self) -> None:
        """Open the sinks once the source is open: before that, no stream is announced and no folder is made."""
        if self.is_live is None or self.begun:
            return
        if not self.sinks.sinks:
            self._open_sinks()
            early, self._early = self._early, []
            for record in early:
                self._handle_record(record)
        if self.is_live and self.emission.ready:
            self.emission.begin()
            if self.counts is not None:
                self.counts.begin()
            self.begun = True

    def _accept(self, opened: Opened) -> None:
        """Hold a verified bundle ready for an inside that runs it."""
        watch = ext.shift_watch.ShiftWatch(opened, clock=self.clock, say=self.log.say, looked=self.sinks.shift)
        self._verified[opened.bundle.manifest_sha256] = (opened.bundle, watch)

    def _inside_ended(self) -> None:
        """One inside has ended and its pipe is empty: count the frames that it had not sent yet."""
        self.emission.forget_coming()
        counts = self.link.inside.all()
        dropped = sum(all_drops(counts, {}).values()) + self.counters.get(DROP + "inside-ended")
        lost = counts.get("frames-in", 0) - dropped - self.counters.get("sets-in")
        if lost > 0:
            self.counters.add(DROP + "inside-ended", lost)

    def _reload(self) -> None:
        self._manager.reloading(self.clock())
        try:
            handle, opened = open_bundle(self.settings.bundle, self.trust_watch.read(), self.settings.source)
            try:
                self._check_change(opened)
            except BadInput:
                os.close(handle)
                raise
        except EdgeVeilError as error:
            self.counters.add("fault:reload")
            self.log.say("reload-refused", message="{} The previous bundle runs on.".format(error))
        else:
            bundle = opened.bundle
            running = self.link.manifest_sha256
            self._verified = {running: self._verified[running]}
            self._accept(opened)
            self.log.say("reload", bundle=bundle.manifest.name, manifest_sha256=bundle.manifest_sha256)
            self.link.reload(handle, bundle.manifest_sha256)
        self._manager.reloaded()

    def _check_change(self, opened: Opened) -> None:
        """Raise ``BadInput`` where a bundle cannot take the place of this service's while it runs."""
        manifest = opened.bundle.manifest
        if (
            Layout.from_manifest(manifest).columns != self.layout.columns
            or manifest.counts != self.bundle.manifest.counts
            or self.plan != schedule(manifest, self.settings.fps)
        ):
            raise BadInput(
                "the new bundle has other outputs, other counts or another schedule: restart the service to use it"
            )
        if emission.promises(opened) != self.promised:
            problem = "the new bundle promises another epsilon, or the policy allows another"
            raise BadInput(problem + ": restart the service to use it")

    # the end

    def _end(self, failed: Optional[BaseException] = None) -> None:
        self._manager.stopping()
        deadline = self.clock() + DRAIN_S - 1.0
        self.link.kill()
        self.emission.drain()
        work = self.sinks.discard if getattr(failed, "exit_code", 0) == PrivacyStop.exit_code else self.sinks.close
        # A sink that cannot close must not keep the process alive: its spool is on disk.
        closed, errors = done_within(work, max(deadline - self.clock(), 1.0))
        if not closed:
            self.log.say("stop", message="a sink did not close in time; its unsent frames are lost unless it spools")
        self.status.close()
        if errors and failed is None:
            raise errors[0]

    # reports

    def _update_pages(self, now: float) -> None:
        """Update the numbers on this device's pages, a few times a second."""
        if now < self._pages_updated_s + PAGES_EVERY_S:
            return
        self._pages_updated_s = now
        inside = self.link.inside.all()
        levels = {name[len(LEVEL) :]: value for name, value in inside.items() if name.startswith(LEVEL)}
        self.sinks.local(self.drops(), levels, inside.get("last-latency-us", 0) / 1e3)

    def _show_releases(self) -> None:
        """Give the sinks the releases that run and are offered, where one of them is another than before."""
        running = self.link.manifest_sha256
        releases = running, self.trust_watch.offered or running
        if releases != self._shown_releases and self.sinks.sinks:
            self._shown_releases = releases
            self.sinks.releases(*releases)

    def _open_sinks(self) -> None:
        manifest = self.bundle.manifest
        options = {
            "say": lambda text: self.log.say("sink", message=text),
            "audit": self.bundle.audit,
            "notes": self.status.notes(),
            "source": without_secrets(self.settings.source),
            "runs": {name: self.info[name] for name in ("artefact", "device") if name in self.info},
        }
        self.sinks.sinks = open_sinks(self.settings.sink, manifest.outputs, manifest, options).sinks
