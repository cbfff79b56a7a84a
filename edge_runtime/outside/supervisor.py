"""Starts the inside, listens to it, kills it if it hangs, and restarts it: after a pause, and not for ever."""

import collections
import contextlib
import json
import os
import signal
import subprocess
import time
from typing import Any, Callable, Deque, Dict, Iterator, List, NamedTuple, Optional, Sequence, Union

from edgeveil.edge_runtime.config import Settings
from edgeveil.edge_runtime.device import open_limit_s
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, EdgeVeilError, PrivacyStop
from edgeveil.edge_runtime.ipc.counters import Counters, page_at, shared_page
from edgeveil.edge_runtime.ipc.notes import Event, parse_notes, widen
from edgeveil.edge_runtime.ipc.pipes import COUNTERS, NOTES, RECORDS, Backoff, make_pipe, open_for_outside
from edgeveil.edge_runtime.ipc.record import Counted, Layout, Record, RecordBroken, RecordReader
from edgeveil.edge_runtime.kinds import reads_stdin
from edgeveil.edge_runtime.machine import cpu_s
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.outside.process_table import Process, environment, process_table

# The outside's end of the link to the inside: records, notes and counters.


LinkOwner = NamedTuple(
    "LinkOwner",
    [
        ("layout", Layout),
        ("counters", Counters),  # of the outside
        ("say", Callable[..., None]),  # say(event, **facts) logs restarts and faults
        ("manifest_sha256", str),  # of the bundle that the inside must run
        ("on_end", Callable[[], None]),  # called when an inside has ended and all its records were read
    ],
)


class InsideLink(object):
    """A link to one inside after the other. ``Supervisor`` starts them; ``ExternalInside`` waits for a manager's.

    ``inside`` are the counters of the inside, ``page`` their memory. ``ended`` is true when no other inside follows.
    """

    def __init__(self, page: int, owner: LinkOwner) -> None:
        self._owner = owner
        self.inside = Counters(page)
        self.manifest_sha256 = owner.manifest_sha256
        self.ended = False
        self._records, self._notes, self._text = -1, -1, b""
        self._reader: Optional[RecordReader] = None

    def handles(self, *, records: bool = True) -> List[int]:
        """The descriptors to wait for, for reading; without ``records``, that of the notes."""
        return [handle for handle in (self._records if records else -1, self._notes) if handle >= 0]

    def records(self) -> Iterator[Union[Record, Counted]]:
        """The records that have come. After a broken record, nothing more is read from that inside."""
        if self._reader is None:
            return
        try:
            yield from self._reader.records()
            return
        except RecordBroken as error:
            problem = str(error)
        self._owner.counters.add("fault:record")
        self._owner.say("record", message=problem)
        self._record_broken()

    def _record_broken(self) -> None:
        """Called after a broken record."""
        raise NotImplementedError

    def _read_notes(self) -> Optional[List[Event]]:
        """The notes that have come; None if their writer has closed the pipe."""
        try:
            data = os.read(self._notes, 1 << 16)
        except BlockingIOError:
            return []
        if not data:
            return None
        events, self._text = parse_notes(self._text + data)
        return events


LONGEST_PAUSE_S = 30.0  # between two starts
STEADY_S = 60.0  # after a run of this length, the next pause is short again
BUDGET_S = 3600.0  # the time over which restarts are counted
STOP_S = 2.0  # from SIGTERM to SIGKILL
START_S = 30.0  # added to the watchdog's time until an inside is ready
# A thread that waits for Python's lock has 1 to 2 % of a processor (measured), one that computes more.
COMPUTES, COMPUTES_FOR_S = 0.05, 1.0

_Bundle = NamedTuple("_Bundle", [("handle", int), ("manifest_sha256", str)])


class InsideFailed(EdgeVeilError):
    """The inside ended for a reason that a restart does not cure; carries its exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super(InsideFailed, self).__init__(message)
        self.exit_code = exit_code


def ended(how: str, message: str) -> str:
    """How the inside ended, and the reason that it gave, if any."""
    return "the inside ended {}{}.".format(how, ": " + message.rstrip(".") if message else "")


class Supervisor(InsideLink):
    """Runs the ``processes`` of a table. The last one is the inside; the others send frames to it.

    ``bundle`` is a descriptor of the bundle to run. ``hang_after_s`` is the time of the inside's own watchdog,
    ``open_limit_s`` the most it may take to open its bundle, ``restarts`` the most restarts in an hour. Call
    ``poll`` often.
    """

    def __init__(
        self,
        processes: Sequence[Process],
        bundle: int,
        owner: LinkOwner,
        *,
        hang_after_s: float,
        open_limit_s: float,
        restarts: int,
        stdin: Optional[int] = subprocess.DEVNULL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._page = shared_page()
        super(Supervisor, self).__init__(self._page, owner)
        self._feeders, self._inside_process = list(processes[:-1]), processes[-1]
        self._bundle, self._hang_after_s, self._restarts = bundle, hang_after_s, restarts
        self._open_limit_s = open_limit_s
        self._stdin, self._clock = stdin, clock
        self._process: Any = None
        self._feeding: List[Any] = []
        self._backoff = Backoff(most_s=LONGEST_PAUSE_S)
        self._again_s: Optional[float] = None
        self._started_s = 0.0
        # Processor time of an inside that opens, when that was read, and until when it computed.
        self._cpu_s, self._looked_s, self._computed_s = 0.0, 0.0, 0.0
        self._last_restarts: Deque[float] = collections.deque()
        self._ever_ready, self._ready, self._killed = False, False, False
        self._stop_by_s: Optional[float] = None
        self._next_bundle: Optional[_Bundle] = None
        self._old_bundle: Optional[_Bundle] = None
        self._last_word: Dict[str, Any] = {}

    def start(self) -> None:
        """Start the processes that send frames, then an inside, and listen to it."""
        self._end_feeding()
        frames: Optional[int] = None
        for feeder in self._feeders:
            frames, theirs = os.pipe()
            self._feeding.append(self._spawn(feeder, {"frames": theirs}))
        records, their_records = os.pipe()
        widen(records)
        notes, their_notes = os.pipe()
        os.set_blocking(notes, False)
        ends = {"records": their_records, "notes": their_notes, "frames": frames}
        shared = {"counters": self._page, "bundle": self._bundle}
        self._process = self._spawn(
            self._inside_process, ends, shared=shared, stdin=self._stdin, retry=self._ever_opened
        )
        self._records, self._notes, self._text = records, notes, b""
        self._reader = RecordReader(records, self._owner.layout)
        self._started_s, self._again_s, self._last_word = self._clock(), None, {}
        self._cpu_s, self._looked_s = 0.0, self._started_s
        self._ready = self._killed = False

    def _spawn(
        self,
        process: Process,
        ends: Dict[str, Optional[int]],
        *,
        shared: Optional[Dict[str, int]] = None,
        stdin: Optional[int] = subprocess.DEVNULL,
        **facts: bool,
    ) -> Any:
        """Start a process of the table. It gets ``ends``, which are closed here, and ``shared``, which stay open."""
        settings, ours = os.pipe()
        handles: Dict[str, Optional[int]] = dict(ends, settings=settings, **(shared or {}))
        given = dict(handles, network=process.network, account=process.user, **facts)
        spawned = subprocess.Popen(  # noqa: S603 - a command of the process table
            process.command + [json.dumps(given)],
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[handle for handle in handles.values() if handle is not None],
            close_fds=True,
            env=environment(),
        )
        for handle in [settings] + list(ends.values()):
            if handle is not None:
                os.close(handle)
        with os.fdopen(ours, "wb") as file:
            file.write(json.dumps(process.settings).encode("utf-8"))
        return spawned

    def _end_feeding(self) -> None:
        for process in self._feeding:
            process.kill()
            process.wait()
        self._feeding = []

    def poll(self, ready: Sequence[int]) -> List[Event]:
        """The notes of the inside since the last call. Kills one that hangs, and restarts it when that is due.

        ``ready`` are those of its descriptors that have something. Raises ``InsideFailed`` if none can run.
        """
        events = self._listen() if self._notes in ready else []
        now = self._clock()
        if self._process is None:
            if self._again_s is not None and now >= self._again_s and not self.ended:
                self.start()
            return events
        if self._stop_by_s is not None and now > self._stop_by_s:
            self._kill()
        elif not self._killed and self._hangs(now):
            self._owner.counters.add("fault:hang")
            self._owner.say("hang", message="the inside hung; it is killed and restarted")
            self._kill()
        # Its last records are still in the pipe: read them before handling its end.
        if (self._reader is None or self._reader.ended) and self._process.poll() is not None:
            events += self._listen()
            self._handle_end(self._process.returncode, now)
        return events

    def stop(self) -> None:
        """Tell the inside to finish; ``ended`` is true when it has."""
        self.ended = self._process is None
        self._next_bundle = None
        if self._process is not None and self._stop_by_s is None:
            self._stop_by_s = self._clock() + STOP_S
            self._signal(signal.SIGTERM)
        self._last_word["stopping"] = True

    def reload(self, bundle: int, manifest_sha256: str) -> None:
        """Go on with another verified bundle: a descriptor, which is closed here.

        The old bundle is kept until an inside runs the new one.
        """
        if self._process is None:
            os.close(self._bundle)
            self._bundle, self.manifest_sha256 = bundle, manifest_sha256
            return
        self._next_bundle = _Bundle(bundle, manifest_sha256)
        self._stop_by_s = self._clock() + STOP_S
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End every process at once."""
        self._end_feeding()
        if self._process is not None:
            self._kill()
            self._process.wait()
            self._close()

    def _hangs(self, now: float) -> bool:
        """Whether the inside hangs and its own, quicker, watchdog hangs too."""
        last = max(self.inside.get("beat-ms") / 1e3, self._started_s)
        if self._ready:
            return now - last > 3 * self._hang_after_s
        if now - self._started_s > self._open_limit_s + START_S:
            return True  # the inside's own alarm should have ended it before
        # A library that builds an engine may let no Python run for minutes, and computes.
        if now - self._looked_s >= COMPUTES_FOR_S:
            had = cpu_s(self._process.pid) or 0.0
            if had - self._cpu_s > COMPUTES * (now - self._looked_s):
                self._computed_s = now
            self._cpu_s, self._looked_s = had, now
        return now - max(last, self._computed_s) > 3 * self._hang_after_s + START_S

    def _listen(self) -> List[Event]:
        events = (self._read_notes() or []) if self._notes >= 0 else []
        for event in events:
            if event.name == "ready":
                self._became_ready()
            if event.name == "ended":
                self._last_word.update(event.facts)
        return events

    def _became_ready(self) -> None:
        self._ready = self._ever_ready = True
        if self._old_bundle is not None:
            os.close(self._old_bundle.handle)
            self._old_bundle = None
            self._owner.say("reloaded")

    def _handle_end(self, code: int, now: float) -> None:
        word, was_ready, ran_s = self._last_word, self._ready, now - self._started_s
        self._close()
        self._owner.on_end()
        self._stop_by_s = None
        if self._next_bundle is not None:
            self._old_bundle = _Bundle(self._bundle, self.manifest_sha256)
            (self._bundle, self.manifest_sha256), self._next_bundle = self._next_bundle, None
            self.start()
            return
        if word.get("stopping") or code == 0:
            self.ended = True
            return
        message = str(word.get("message") or "")
        if self._old_bundle is not None and not was_ready:
            self._owner.say("reload-failed", message="{} The previous bundle runs on.".format(message))
            os.close(self._bundle)
            (self._bundle, self.manifest_sha256), self._old_bundle = self._old_bundle, None
            self.start()
            return
        if word.get("code") is not None and (code in (2, PrivacyStop.exit_code) or not self._ever_opened):
            raise InsideFailed(message, code)
        if code > 0 and word.get("code") is None and not self._ever_ready:
            raise InsideFailed("the inside could not be started (exit code {}); run verify first".format(code), 4)
        self._schedule(code, message, ran_s, now)

    @property
    def _ever_opened(self) -> bool:
        return self.inside.get("frames-in") > 0

    def _schedule(self, code: int, message: str, ran_s: float, now: float) -> None:
        """Set the time of the next start; raises ``DeviceFailed`` after too many."""
        how = "by signal {}".format(-code) if code < 0 else "with exit code {}".format(code)
        if -code == signal.SIGALRM:
            how = "by its watchdog: something in it hung"
            self._owner.counters.add("fault:hang")
        while self._last_restarts and now - self._last_restarts[0] > BUDGET_S:
            self._last_restarts.popleft()
        if len(self._last_restarts) >= self._restarts:
            raise DeviceFailed(
                "{} That was {} times in an hour. Check the camera and its cable, then restart the service.".format(
                    ended(how, message), len(self._last_restarts) + 1
                )
            )
        self._last_restarts.append(now)
        self._owner.counters.add("inside-restarts")
        if ran_s > STEADY_S:
            self._backoff.reset()
        self._again_s = now + self._backoff.next_s()
        self._owner.say("inside-ended", message=ended(how, message) + " It is restarted.")

    def _signal(self, number: int) -> None:
        with contextlib.suppress(OSError):
            self._process.send_signal(number)

    def _kill(self) -> None:
        self._killed = True
        self._signal(signal.SIGKILL)

    _record_broken = _kill

    def _close(self) -> None:
        for handle in (self._records, self._notes):
            if handle >= 0:
                os.close(handle)
        self._process, self._reader, self._records, self._notes = None, None, -1, -1


# An inside that a service manager starts as a unit of its own; two named pipes and a page of counters connect it.
#
# So the inside can have what systemd gives to a unit but not to a process: no network at all, its camera and no other
# device, a user of its own. The manager restarts it when it ends; the outside's ticks go on meanwhile.


class ExternalInside(InsideLink):
    """Inside and outside meet in ``folder``, where the outside makes the pipes."""

    def __init__(self, folder: str, owner: LinkOwner) -> None:
        # The inside waits for the last of them.
        for name in (RECORDS, NOTES):
            make_pipe(os.path.join(folder, name))
        super(ExternalInside, self).__init__(page_at(os.path.join(folder, COUNTERS)), owner)
        # The page may hold the counts of an earlier service.
        self.inside.clear()
        self._folder = folder

    def start(self) -> None:
        """Listen."""
        self._open_records()
        self._notes = open_for_outside(self._folder, NOTES)

    def poll(self, ready: Sequence[int]) -> List[Event]:
        """As ``Supervisor``; here it raises nothing."""
        events = self._read_notes() if self._notes in ready else []
        if events is None:
            os.close(self._notes)
            self._notes = open_for_outside(self._folder, NOTES)
            self._text = b""
            return []
        for event in events:
            if event.name == "ended" and event.facts.get("code") == 0:
                self.ended = True
            elif event.name == "ended":
                # Its unit says nothing: what a library printed there could be a frame.
                self._owner.say("inside-ended", message=str(event.facts.get("message"))[:400])
        return events

    def records(self) -> Iterator[Union[Record, Counted]]:
        """See ``InsideLink``."""
        yield from super(ExternalInside, self).records()
        if self._reader is not None and self._reader.ended:
            self._record_broken()

    def stop(self) -> None:
        """Stop listening: the manager ends the inside."""
        self.ended = True

    kill = stop

    def reload(self, bundle: int, manifest_sha256: str) -> None:
        """Accept the inside that runs this bundle; its manager starts it."""
        os.close(bundle)
        self.manifest_sha256 = manifest_sha256

    def _record_broken(self) -> None:
        """Open the pipe again: the writer of the old one gets an error."""
        self._open_records()
        self._owner.on_end()

    def _open_records(self) -> None:
        if self._records >= 0:
            os.close(self._records)
        self._records = open_for_outside(self._folder, RECORDS)
        self._reader = RecordReader(self._records, self._owner.layout)


# The link of a service to its inside: one that a service manager starts, or one that we start.


def open_link(
    settings: Settings, manifest: Manifest, bundle: int, owner: LinkOwner, *, clock: Callable[[], float]
) -> Union[Supervisor, ExternalInside]:
    """The link that the settings ask for; it owns the descriptor ``bundle``.

    Raises ``BadInput`` where the settings do not go together, and as ``process_table`` does.
    """
    if settings.inside_at:
        os.close(bundle)
        if settings.inside_user:
            raise BadInput("expected --inside-at or --inside-user, not both: set the user in the inside's own unit")
        return ExternalInside(settings.inside_at, owner)
    return Supervisor(
        process_table(settings, manifest),
        bundle,
        owner,
        hang_after_s=settings.hang_after,
        open_limit_s=open_limit_s(settings.device),
        restarts=settings.restarts,
        stdin=None if reads_stdin(settings.source) else subprocess.DEVNULL,
        clock=clock,
    )
