"""Starts the inside, listens to it, ends it where it hangs, and starts it again: not at once, and not for ever."""

import collections
import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from edgeveil.edge_runtime.errors import DeviceFailed, EdgeVeilError, PrivacyStop
from edgeveil.edge_runtime.ipc.counters import Counters, shared_page
from edgeveil.edge_runtime.ipc.notes import Event, parse_notes
from edgeveil.edge_runtime.ipc.pipe import widen
from edgeveil.edge_runtime.ipc.record import Layout, RecordBroken, RecordReader
from edgeveil.edge_runtime.paths import zipapp

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
BUDGET_S = 3600.0  # the time in which so many restarts are too many
STOP_S = 2.0  # what an inside that was told to end is given before it is killed


class InsideFailed(EdgeVeilError):
    """The inside ended for a reason that starting it again does not cure; carries its exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super(InsideFailed, self).__init__(message)
        self.exit_code = exit_code


def command(module: str) -> List[str]:
    """How a module of this runtime is started as a program: from the zipapp or the folder that this one came from."""
    app = zipapp()
    paths = [] if app is None else [app]
    site = os.path.join(os.path.dirname(os.path.realpath(app or "")), "..", "..", "site")
    if app is not None and os.path.isdir(site):
        paths.insert(0, os.path.realpath(site))  # the wheels that were flashed, as the zipapp's own start finds them
    code = "import sys; sys.path[:1] = {!r}; from edgeveil.edge_runtime.{} import main; sys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-c", code.format(paths, module)]


def environment() -> Dict[str, str]:
    """Ours, less what belongs to this process alone. One thread each for numpy, so that a namespace takes them all."""
    ours = {k: v for k, v in os.environ.items() if k not in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")}
    ours.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    return ours


class Supervisor(object):
    """One inside after the other. ``poll`` often; ``bundle`` is a file descriptor of the bundle that is to run.

    ``settings`` are those of ``inside.py``; ``say(event, **facts)`` is told of restarts and faults. Where the source
    comes over a network, ``fetch`` has the settings of ``fetch.py``: then each inside has one to fetch for it.
    """

    def __init__(
        self,
        settings: Dict[str, Any],
        bundle: int,
        layout: Layout,
        *,
        restarts: int,
        counters: Counters,
        say: Callable[..., None],
        manifest_sha256: str,
        ended: Callable[[], None],
        fetch: Optional[Dict[str, Any]] = None,
        clock: Callable[[], float] = time.monotonic,
        start: Callable[..., Any] = subprocess.Popen,
    ) -> None:
        self._settings, self._bundle, self._layout = settings, bundle, layout
        self._restarts, self._counters, self._say, self._clock, self._start = restarts, counters, say, clock, start
        self._fetch, self._told_ended = fetch, ended
        self.manifest_sha256 = manifest_sha256  # of the bundle that the running inside must have
        self._page = shared_page()
        self.inside = Counters(self._page)
        self._process: Any = None
        self._fetching: Any = None
        self._reader: Optional[RecordReader] = None
        self._records, self._notes, self._text = -1, -1, b""
        self._pause_s = FIRST_PAUSE_S
        self._again_s: Optional[float] = None
        self._started_s = 0.0
        self._last_restarts: Any = collections.deque()
        self._ever_ready, self._ready, self._killed = False, False, False
        self._stop_by_s: Optional[float] = None
        self._next_bundle: Optional[Tuple[int, str]] = None
        self._old_bundle: Optional[Tuple[int, str]] = None
        self._last_word: Dict[str, Any] = {}
        self.ended = False  # the source came to its end, or we were told to stop

    def handles(self) -> List[int]:
        """What to wait for, for reading."""
        return [handle for handle in (self._records, self._notes) if handle >= 0]

    def start(self) -> None:
        """Start an inside now."""
        records, theirs = os.pipe()
        widen(records)
        notes, their_notes = os.pipe()
        os.set_blocking(notes, False)
        settings, our_settings = os.pipe()
        given = {
            "settings": settings,
            "records": theirs,
            "notes": their_notes,
            "counters": self._page,
            "bundle": self._bundle,
            "frames": self._start_fetching() if self._fetch else None,
        }
        passed = [handle for handle in given.values() if handle is not None]
        stdin = None if self._settings["source"] in ("csv:-", "arff:-") else subprocess.DEVNULL
        self._process = self._start(
            command("inside.process") + [json.dumps(given)],
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=passed,
            close_fds=True,
            env=environment(),
        )
        for handle in (settings, theirs, their_notes, given["frames"]):
            if handle is not None:
                os.close(handle)
        with os.fdopen(our_settings, "wb") as file:
            file.write(json.dumps(dict(self._settings, retry=self._ever_opened)).encode("utf-8"))
        self._records, self._notes, self._text = records, notes, b""
        self._reader = RecordReader(records, self._layout)
        self._started_s, self._again_s, self._ready, self._last_word = self._clock(), None, False, {}
        self._killed = False

    def _start_fetching(self) -> int:
        """A process that gets frames from the network; returns the end of the pipe that they come out of."""
        self._end_fetching()
        frames, theirs = os.pipe()
        settings, ours = os.pipe()
        self._fetching = self._start(
            command("sources.network.process") + [json.dumps({"settings": settings, "frames": theirs})],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[settings, theirs],
            close_fds=True,
            env=environment(),
        )
        os.close(settings)
        os.close(theirs)
        with os.fdopen(ours, "wb") as file:
            file.write(json.dumps(self._fetch).encode("utf-8"))
        return frames

    def _end_fetching(self) -> None:
        if self._fetching is not None:
            self._fetching.kill()
            self._fetching.wait()
            self._fetching = None

    def records(self) -> Any:
        """The records that have come. A broken one ends the inside that sent it."""
        if self._reader is None:
            return
        try:
            for record in self._reader.records():
                yield record
            return
        except RecordBroken as error:
            problem = str(error)
        self._counters.add("fault:record")
        self._say("record", message=problem)
        self._kill()

    def poll(self) -> List[Event]:
        """What the inside said since the last time; ends it and starts it again where that is due.

        Raises ``InsideFailed`` where it ended for good.
        """
        events = self._listen()
        now = self._clock()
        if self._process is None:
            if self._again_s is not None and now >= self._again_s and not self.ended:
                self.start()
            return events
        if self._stop_by_s is not None and now > self._stop_by_s:
            self._kill()
        elif not self._killed and self._hangs(now):
            self._counters.add("fault:hang")
            self._say("hang", message="the inside did not move for too long; it is ended and started again")
            self._kill()
        # What it sent last is still in the pipe: the end is dealt with when that has been read.
        if self._process.poll() is not None and (self._reader is None or self._reader.ended):
            events += self._listen()
            self._buried(self._process.returncode, now)
        return events

    def stop(self) -> None:
        """Tell the inside to finish; ``ended`` will be true when it has."""
        self.ended = self._process is None
        self._next_bundle = None
        if self._process is not None and self._stop_by_s is None:
            self._stop_by_s = self._clock() + STOP_S
            self._signal(signal.SIGTERM)
        self._last_word["stopping"] = True

    def reload(self, bundle: int, manifest_sha256: str) -> None:
        """Go on with another bundle (a file descriptor), which was verified; the old one stays until this one runs."""
        if self._process is None:
            os.close(self._bundle)
            self._bundle, self.manifest_sha256 = bundle, manifest_sha256
            return
        self._next_bundle = (bundle, manifest_sha256)
        self._stop_by_s = self._clock() + STOP_S
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the inside at once, if there is one, and whatever fetches for it."""
        self._end_fetching()
        if self._process is not None:
            self._kill()
            self._process.wait()
            self._close()

    def _hangs(self, now: float) -> bool:
        """The inside's own watchdog is quicker; this is for one that cannot even die by itself."""
        beat = self.inside.get("beat-ms") / 1e3
        return now - max(beat, self._started_s) > 3 * self._settings["hang_after_s"] + 30 * (not self._ready)

    def _listen(self) -> List[Event]:
        if self._notes < 0:
            return []
        try:
            self._text += os.read(self._notes, 1 << 16)
        except BlockingIOError:
            return []
        events, self._text = parse_notes(self._text)
        for event in events:
            if event.name == "ready":
                self._became_ready()
            if event.name == "ended":
                self._last_word.update(event.facts)
        return events

    def _became_ready(self) -> None:
        self._ready = self._ever_ready = True
        if self._old_bundle is not None:
            os.close(self._old_bundle[0])
            self._old_bundle = None
            self._say("reloaded")

    def _buried(self, code: int, now: float) -> None:
        word, was_ready, ran_s = self._last_word, self._ready, now - self._started_s
        self._close()
        self._told_ended()
        self._stop_by_s = None
        if self._next_bundle is not None:
            self._old_bundle = (self._bundle, self.manifest_sha256)
            (self._bundle, self.manifest_sha256), self._next_bundle = self._next_bundle, None
            self.start()
            return
        if word.get("stopping") or code == 0:
            self.ended = True
            return
        message = str(word.get("message") or "")
        if self._old_bundle is not None and not was_ready:
            self._say("reload-failed", message="{} The bundle from before runs on.".format(message))
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
        how = "by signal {}".format(-code) if code < 0 else "with exit code {}".format(code)
        if -code == signal.SIGALRM:
            how = "by its watchdog: something in it hung"
            self._counters.add("fault:hang")
        while self._last_restarts and now - self._last_restarts[0] > BUDGET_S:
            self._last_restarts.popleft()
        if len(self._last_restarts) >= self._restarts:
            raise DeviceFailed(
                "the inside ended {} times in an hour, the last time {}. {} Look at the camera and its cable, then "
                "start the service again.".format(len(self._last_restarts) + 1, how, message)
            )
        self._last_restarts.append(now)
        self._counters.add("inside-restarts")
        if ran_s > 60:
            self._pause_s = FIRST_PAUSE_S
        pause = self._pause_s * random.uniform(0.5, 1.5)  # noqa: S311 - it spreads load, it hides nothing
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        self._again_s = now + pause
        self._say("inside-ended", message="the inside ended {}. {} It is started again.".format(how, message))

    def _signal(self, number: int) -> None:
        try:
            self._process.send_signal(number)
        except OSError:
            pass

    def _kill(self) -> None:
        self._killed = True
        self._signal(signal.SIGKILL)

    def _close(self) -> None:
        for handle in (self._records, self._notes):
            if handle >= 0:
                os.close(handle)
        self._process, self._reader, self._records, self._notes = None, None, -1, -1
