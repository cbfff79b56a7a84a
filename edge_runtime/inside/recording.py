"""The process of a recording that sees raw frames: source, capture, and a pipe out of which only sealed bytes come.

It is cut off as the inside of a service is (``sandbox.isolation``), and no write of its can make a file longer.
"""

import contextlib
import json
import os
import signal
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, EdgeVeilError, FrameDropped, PrivacyStop, describe
from edgeveil.edge_runtime.ipc import recording
from edgeveil.edge_runtime.kinds import SOURCES, check_sensor, fact_of
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.sandbox import hardening
from edgeveil.edge_runtime.sandbox.isolation import Isolation, needs_network
from edgeveil.edge_runtime.signing.sealed import Sealer


class Ends(NamedTuple):
    """Pipes of this process: sealed bytes out, what became of it out, labels in (a line of JSON each)."""

    sealed: int
    status: int
    labels: int


def run(manifest: Manifest, source: str, key: bytes, ends: Ends, labels: Any) -> int:
    """Record until the source ends or SIGTERM comes; the exit code. What happened goes to ``ends.status``.

    ``labels`` has the ``names`` of all labels, and those that are ``timed``: [name, value, seconds].
    """
    stopping: List[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stopping.append(number))

    def work(document: Dict[str, Any]) -> None:
        sealer = Sealer(key, lambda data: write(ends.sealed, data))
        isolation = Isolation(source, "numpy")
        document["isolation"] = isolation.enter(namespace=not needs_network(source, "cpu"))
        _frames(manifest, source, sealer, isolation, ends, labels, stopping, document)
        sealer.close()

    return run_cut_off(work, ends.status, {"frames": 0, "dropped": {}})


def run_cut_off(work: Callable[[Dict[str, Any]], None], status: int, document: Dict[str, Any]) -> int:
    """Do ``work`` in this process, which sees raw frames and writes to its pipes alone; the exit code.

    ``work`` fills in the ``document`` that goes to ``status`` with the code and the problem.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both processes: the other decides
    hardening.no_core_dumps()
    hardening.end_with_parent()
    hardening.close_outputs()
    hardening.limit_memory(machine.process_limit_bytes())
    try:
        work(document)
        code = 0
    except EdgeVeilError as error:
        code, document["problem"] = error.exit_code, str(error)
    except BrokenPipeError:
        return 4  # the other process has ended
    except Exception as error:
        code = PrivacyStop.exit_code
        document["problem"] = "stopped by an unexpected {}; please report this line".format(describe(error))
    write(status, json.dumps(dict(document, code=code)).encode())
    return code


def _frames(
    manifest: Manifest,
    source: str,
    sealer: Sealer,
    isolation: Isolation,
    ends: Ends,
    labels: Any,
    stopping: List[int],
    document: Dict[str, Any],
) -> None:
    from edgeveil.edge_runtime.pipeline.crops import Capture
    from edgeveil.edge_runtime.sources import open_source

    check_sensor(source, manifest.input.sensor)
    capture, spec = Capture(manifest), manifest.input
    rules = manifest.document["capture"]
    # One frame a tick, as a service takes them; of a series every window.
    every_s = 0.0 if manifest.capture is None or spec.kind == "series" else 1.0 / manifest.capture.tick_hz
    if not fact_of(SOURCES, source, "writes_files"):
        hardening.no_files()
    replayed = bool(fact_of(SOURCES, source, "recording"))
    with open_source(source, spec, manifest.capture, realtime=replayed) as frames:
        isolation.settle(["numpy"])
        if not frames.live:
            raise BadInput("expected a sensor, a film or pictures, which have times; {} has none".format(frames.name))
        about = {"shape": list(spec.shape), "dtype": spec.dtype, "capture": rules, "names": labels.names}
        sealer.add(recording.head(dict(about, kind=spec.kind, source=source.partition(":")[0])))
        for name, value, at in labels.timed:
            sealer.add(recording.label(recording.Label(at, name, value)))
        began: Optional[int] = None
        due, text = 0.0, b""
        while not stopping:
            try:
                raw = frames.next()
                if raw is None:
                    break
                taken = raw.captured_ns or 0
                began = taken if began is None else began
                now = (taken - began) / 1e9
                new_labels, text = _said(ends.labels, text)
                for name, value in new_labels:
                    sealer.add(recording.label(recording.Label(now, name, value)))
                if now < due:
                    continue
                due = max(due + every_s, now - every_s)
                for _slot, one in capture.frames(raw):
                    sealer.add(recording.frame(recording.Frame(now, one.track, one._data)))
                    document["frames"] += 1
                _ = capture.ended  # which empties it
            except FrameDropped as drop:
                document["dropped"][drop.reason] = document["dropped"].get(drop.reason, 0) + 1
        if not document["frames"]:
            reasons = ", ".join("{} {}".format(count, reason) for reason, count in document["dropped"].items())
            raise DeviceFailed("no frame came ({}): nothing was kept".format(reasons or "the source had none"))
        sealer.add(recording.end({key: document[key] for key in ("frames", "dropped")}))


def _said(pipe: int, text: bytes) -> Tuple[List[Any], bytes]:
    """The labels that have come since, [name, value], and the beginning of one more."""
    with contextlib.suppress(BlockingIOError):
        text += os.read(pipe, 2**16)
    *lines, rest = text.split(b"\n")
    return [json.loads(line.decode()) for line in lines], rest


def write(handle: int, data: bytes) -> None:
    """All of it, into a pipe."""
    while data:
        data = data[os.write(handle, data) :]
