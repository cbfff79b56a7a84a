"""The inside: the one process that sees raw frames. It has the source, capture and perturber, and no network.

The outside starts it with a few pipes: no socket, no terminal, no standard input or output. It sends records of one
size (``ipc.record``), counters (``ipc.counters``), and notes (``ipc.notes``): lines of JSON with a word, a sentence
that holds no value of a frame, and facts of the bundle.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from edgeveil.edge_runtime import ext, machine
from edgeveil.edge_runtime.bundle.board_state import files_beside
from edgeveil.edge_runtime.bundle.reader import open_file, read_all
from edgeveil.edge_runtime.config import Settings, choices
from edgeveil.edge_runtime.device import open_limit_s
from edgeveil.edge_runtime.errors import (
    SPENT,
    DeviceFailed,
    EdgeVeilError,
    Missing,
    PrivacyStop,
    SourceFailed,
    Unsupported,
    describe,
)
from edgeveil.edge_runtime.frames import PerturbedFrame
from edgeveil.edge_runtime.ipc.counters import COUNTS, DROP, NICE, Counters, schedule
from edgeveil.edge_runtime.ipc.notes import Notes, Pipe
from edgeveil.edge_runtime.ipc.pipes import make_for_inside, open_for_inside
from edgeveil.edge_runtime.ipc.record import FLAT, RELEASED, Layout, PaidDraws, pack
from edgeveil.edge_runtime.kinds import SOURCES, check_sensor, device_file, fact_of, needs_daemon
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.pipeline import batch
from edgeveil.edge_runtime.pipeline.live import LiveLoop
from edgeveil.edge_runtime.sandbox import hardening
from edgeveil.edge_runtime.sandbox.isolation import Account, Isolation, needs_network
from edgeveil.edge_runtime.sandbox.watchdog import Progress, Watchdog, put_off_alarm

# A camera that is not there at boot is waited for without end, not counted as a failure of the service.
#
# systemd grants a unit its device files as it starts: one that comes later needs a new start of the unit. So a process
# of a unit waits for the file and then ends, and is started again with the camera in its reach.


POLL_S = 1.0
SAY_AFTER_S = 10.0  # a camera that another process is just letting go of is not absent


def wait_for_file(
    path: str,
    say: Callable[[str], None],
    alive: Callable[[], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Wait until ``path`` is there; returns at once, with False, where it is.

    ``say`` gets one sentence after ``SAY_AFTER_S``; ``alive`` is called every ``POLL_S``.
    """
    if os.path.exists(path):
        return False
    began, reported = clock(), False
    while not os.path.exists(path):
        alive()
        if not reported and clock() - began >= SAY_AFTER_S:
            reported = True
            say("there is no {} here; the service waits for it and begins when it is plugged in".format(path))
        sleep(POLL_S)
    return True


Ends = NamedTuple(
    "Ends",
    [
        ("records", int),  # file descriptors: pipes to the outside,
        ("notes", int),
        ("counters", int),  # a page of memory that both have,
        ("bundle", int),  # a file,
        ("frames", Optional[int]),  # and a pipe from the process that fetches or asks for the camera's frames, if any
    ],
)


def main(argv: List[str]) -> int:
    """``argv`` is one JSON object: the descriptors of ``Ends`` and of the ``settings``, and facts of this start.

    ``network``: whether it stays in the system's network namespace; ``account``: the user to run as, or None;
    ``retry``: whether the source was open before, so that it may come back.
    """
    given = json.loads(argv[0])
    hardening.no_core_dumps()
    hardening.end_with_parent()
    with os.fdopen(given["settings"], "rb") as file:
        settings = Settings(**json.loads(file.read().decode("utf-8")))
    account = None if given["account"] is None else Account(*given["account"])
    ends = Ends(**{name: given[name] for name in Ends._fields})
    os.nice(NICE)
    return _run(settings, ends, network=given["network"], account=account, retry=given["retry"])


def run_alone(settings: Settings, folder: str) -> int:
    """Run an inside that a service manager started; it meets the outside in ``folder``.

    Returns the exit code; the outside reports the result. Raises ``BadInput`` if there is no outside.
    """
    if os.getpriority(os.PRIO_PROCESS, 0) < NICE:
        os.nice(NICE)  # a manager that did it may have forbidden it from then on
    ends = open_for_inside(folder)
    bundle = open_file(settings.bundle)
    hardening.no_core_dumps()
    # A manager would store the output in a journal or a log; from here on notes report everything.
    hardening.close_outputs()
    network = needs_network(settings.source, settings.device)
    if _waited_for_camera(settings, ends):
        return DeviceFailed.exit_code
    frames = make_for_inside(settings.frames_at) if settings.frames_at else None
    return _run(settings, Ends(bundle=bundle, frames=frames, **ends), network=network, retry=True)


def _waited_for_camera(settings: Settings, ends: Dict[str, int]) -> bool:
    """Whether the camera was absent and came; the manager grants its file to the next start alone."""
    path = device_file(settings.source)
    if path is None:
        return False
    notes, counters = Notes(ends["notes"]), Counters(ends["counters"])
    if not wait_for_file(
        path,
        lambda text: notes.say("waiting", message=text),
        lambda: counters.set("beat-ms", int(time.monotonic() * 1e3)),
    ):
        return False
    notes.say("fault", word="camera", message="{} is there now; the inside starts again with it".format(path))
    return True


def _run(
    settings: Settings, ends: Ends, *, network: bool, account: Optional[Account] = None, retry: bool = False
) -> int:
    hardening.limit_memory(machine.process_limit_bytes())
    notes = Notes(ends.notes)
    try:
        known = [settings.trust] + files_beside(settings.trust)
        # Of a camera's daemon it reads the same pipe as of a camera on a network.
        reads = "http:" if ends.frames is not None and needs_daemon(settings.source) else settings.source
        isolation = Isolation(reads, settings.backend, settings.device, readable=known)
        inside = Inside(settings, Pipe(ends.records), notes, Counters(ends.counters), retry=retry)
        isolated = isolation.enter(namespace=not network, account=account)
        bundle = read_all(ends.bundle)
        for handle in (ends.bundle, ends.counters):
            os.close(handle)  # read, and mapped
        inside.run(bundle, isolated, ends, settle=isolation.settle)
        code, word, message = 0, "end", ""
    except EdgeVeilError as error:
        code, word, message = error.exit_code, type(error).__name__, str(error)
    except (BrokenPipeError, KeyboardInterrupt):
        return 4  # the outside has ended
    except Exception as error:
        code, word = PrivacyStop.exit_code, type(error).__name__
        message = "stopped by an unexpected {}; please report this line".format(describe(error))
    notes.say("ended", code=code, word=word, message=message)
    return code


class Inside(object):
    """One run of the inside, from a bundle's bytes to the end of its source."""

    def __init__(self, settings: Settings, pipe: Pipe, notes: Notes, counters: Counters, *, retry: bool) -> None:
        self._settings, self._pipe, self._notes, self._counters = settings, pipe, notes, counters
        self._retry, self._said_source = retry, False
        self._watchdog = Watchdog(settings.hang_after, put_off=self._put_off)
        self._loop: Optional[LiveLoop] = None
        self._draws = PaidDraws()
        self._may_make: Callable[[int], bool] = lambda _releases: True
        self._may_count: Callable[[int], bool] = self._may_make
        self._sending = threading.Lock()
        self._stopping = False
        self._sets = 0

    def run(self, bundle: bytes, isolated: str, ends: Ends, settle: Callable[[List[str]], None]) -> None:
        """Open the bundle, report what runs, then perturb. Raises the error that ends it early.

        ``settle`` is called before the first byte of a stranger's picture is read.
        """
        from edgeveil.edge_runtime.pipeline.camera_aid import CameraAid
        from edgeveil.edge_runtime.pipeline.crops import Capture
        from edgeveil.edge_runtime.pipeline.perturber import Perturber

        settings, frames = self._settings, ends.frames
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both processes: the outside decides
        locked = hardening.lock_memory()
        # A model may never end; the watchdog begins once it has. Until then the outside sees that this one computes.
        self._put_off(open_limit_s(settings.device))
        with Progress(self._beat):
            opened = Perturber.open(bundle, trust=settings.trust, **choices(settings))
        with opened as perturber:
            del bundle, opened
            check_sensor(settings.source, perturber.manifest.input.sensor)
            plan = schedule(perturber.manifest, settings.fps)
            layout = Layout.from_manifest(perturber.manifest)
            if perturber.price is not None:
                self._may_make = ext.allowance.InsideCount(self._counters, perturber.price).take
            counter = self._counter(perturber)
            capture = Capture(perturber.manifest, counter, perturber.detector)
            self._pipe.beat = lambda: self._watchdog.beat("perturb")
            self._watchdog.beat("perturb")
            self._watchdog.start()
            live = LiveLoop(
                perturber,
                plan,
                open_source=lambda: self._open_and_say(perturber.manifest, frames),
                capture=capture,
                send=lambda made: self._send(layout, made, RELEASED),
                counters=self._counters,
                watchdog=self._watchdog,
                note=lambda word, text: self._notes.say("fault", word=word, message=text),
                max_latency_s=settings.max_latency,
                recheck_s=settings.recheck,
                frames=settings.frames,
                camera_aid=CameraAid(perturber.manifest, self._counters).observe if settings.camera_aid else None,
                turn=lambda: self._send_counts(layout, counter),
            )
            started = time.monotonic()
            flat = live.flat()
            spent = time.monotonic() - started
            self._notes.say("ready", info=perturber.info, isolation=isolated, locked=locked, set_ms=spent * 1e3)
            self._send(layout, flat, FLAT)
            if frames is not None:
                _load_decoder()
            if frames is not None or not fact_of(SOURCES, settings.source, "writes_files"):
                hardening.no_files()
            running = [facts["backend"] for facts in perturber.info["backends"].values()]
            running += [] if perturber.detector is None else [perturber.detector.info()["backend"]]
            if frames is not None:
                settle(running)  # such a source reads as it opens
            source = self._open_first(perturber.manifest, frames)
            if frames is None:
                settle(running)
            self._loop = live
            if self._stopping:
                live.stop()
            if source is None or source.live:
                live.run(source)
            else:
                with source:
                    self._run_file(source, perturber, capture, layout)

    def _open_first(self, manifest: Manifest, frames: Optional[int]) -> Any:
        """The source, or None if it was open before and may come back, or is one that a service waits for."""
        try:
            return self._open_and_say(manifest, frames)
        except DeviceFailed as error:
            if not self._retry or not isinstance(error, SourceFailed) or isinstance(error, Unsupported):
                raise
            self._notes.say("fault", word=type(error).__name__.lower(), message=str(error))
            self._notes.say("waiting", message=str(error))
            return None

    def _open_and_say(self, manifest: Manifest, frames: Optional[int]) -> Any:
        source = self._open(manifest, frames)
        if self._said_source:
            return source
        self._said_source = True
        facts = {key: getattr(source, key) for key in ("live", "simulated", "raw_on_network", "name", "size")}
        self._notes.say("source", **facts)
        return source

    def _open(self, manifest: Manifest, frames: Optional[int]) -> Any:
        from edgeveil.edge_runtime.sources import open_source

        if frames is not None:
            from edgeveil.edge_runtime.manifest.manifest import expected
            from edgeveil.edge_runtime.sources.from_pipe import FetchedSource

            sensor, quiet = expected(manifest.input, manifest.capture), fact_of(SOURCES, self._settings.source, "quiet")
            return FetchedSource(frames, self._settings.source, sensor, quiet=bool(quiet))
        return open_source(
            self._settings.source,
            manifest.input,
            manifest.capture,
            realtime=self._settings.realtime,
            repeat=self._settings.repeat,
        )

    def _send(self, layout: Layout, frames: List[PerturbedFrame], state: int) -> None:
        if state == RELEASED and not self._draws.pay([frame.drawn for frame in frames], self._may_make):
            self._counters.add(DROP + SPENT)
            return
        data = b"".join(layout.pack(frame, self._sets, slot, state) for slot, frame in enumerate(frames))
        with self._sending:
            self._pipe.write(data)
        self._sets += 1

    def _counter(self, perturber: Any) -> Any:
        """What counts people, where the bundle has that counted; else None."""
        manifest, price = perturber.manifest, perturber.count_price
        if manifest.counts is not None and price is not None:
            self._may_count = ext.allowance.InsideCount(self._counters, price, of=COUNTS).take
        return ext.counter.Counter.from_manifest(manifest)

    def _send_counts(self, layout: Layout, counter: Any) -> None:
        counted = None if counter is None else counter.close()
        if counted is not None and self._may_count(1):
            # The sending thread writes whole sets; a record of counts comes between two of them.
            with self._sending:
                self._pipe.write(pack(counted, layout.size))

    def _run_file(self, source: Any, perturber: Any, capture: Any, layout: Layout) -> None:
        """Perturb all frames of a file, in order and without ticks; they keep their numbers."""
        summary = batch.perturb_all(
            source,
            perturber,
            lambda frame: self._pipe.write(layout.pack(frame, frame.index, frame.slot)),
            capture=capture if perturber.manifest.capture else None,
            pay=lambda _tracks, _more, drawn: [self._draws.pay([name], self._may_make) for name in drawn],
            interrupted=lambda: self._stopping,
            progress=lambda *_: self._watchdog.beat("perturb"),
            report=batch.refusal_reporter(
                self._settings.strict, lambda text: self._notes.say("fault", word="refused", message=text)
            ),
        )
        self._counters.add("frames-in", summary.frames_in)
        self._counters.add("sets-out", summary.frames_out)
        for reason, count in summary.dropped.items():
            self._counters.add(DROP + reason, count)

    def _beat(self) -> None:
        # The outside watches this too: a stopped process does not get its alarm.
        self._counters.set("beat-ms", int(time.monotonic() * 1e3))

    def _put_off(self, seconds: float) -> None:
        self._beat()
        put_off_alarm(seconds)

    def _stop(self, *_: Any) -> None:
        self._stopping = True
        if self._loop is not None:
            self._loop.stop()


def _load_decoder() -> None:
    """All code that reads a network camera's frames: later, its files may be out of reach of this process's user."""
    from edgeveil.edge_runtime.late_imports import opencv
    from edgeveil.edge_runtime.sources import from_pipe  # noqa: F401

    with contextlib.suppress(Missing):  # the first picture that needs it says so
        opencv()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
