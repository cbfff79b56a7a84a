"""The process of an aim that has the camera: source, and a pipe out of which only edges come, one bit each.

It is cut off as the inside of a service is (``sandbox.isolation``), and no write of its can make a file longer.
"""

import json
import os
import signal
import time
from typing import Any, Callable, Dict, NamedTuple

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.errors import BadInput, EdgeVeilError, FrameDropped, PrivacyStop, describe
from edgeveil.edge_runtime.kinds import SOURCES, check_sensor, fact_of
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.sandbox import hardening
from edgeveil.edge_runtime.sandbox.isolation import Isolation, needs_network

EVERY_S = 0.25


class Ends(NamedTuple):
    """Pipes of this process: edges out, and what became of it."""

    edges: int
    status: int


def run(
    manifest: Manifest, source: str, ends: Ends, until_s: float, clock: Callable[[], float] = time.monotonic
) -> int:
    """Send edges of the source until the reader goes, and no longer than ``until_s`` by ``clock``; the exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    # It ends this process in time, whatever it waits for.
    signal.setitimer(signal.ITIMER_REAL, max(until_s - clock(), 0.001))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both processes: the other decides
    hardening.no_core_dumps()
    hardening.end_with_parent()
    hardening.close_outputs()
    hardening.limit_memory(machine.process_limit_bytes())
    document: Dict[str, Any] = {}
    try:
        isolation = Isolation(source, "numpy")
        isolation.enter(namespace=not needs_network(source, "cpu"))
        _show(manifest, source, isolation, ends, until_s, clock)
        code = 0
    except EdgeVeilError as error:
        code, document["problem"] = error.exit_code, str(error)
    except BrokenPipeError:
        return 4  # the other process has ended
    except Exception as error:
        code = PrivacyStop.exit_code
        document["problem"] = "stopped by an unexpected {}; please report this line".format(describe(error))
    _write(ends.status, json.dumps(dict(document, code=code)).encode())
    return code


def _show(
    manifest: Manifest, source: str, isolation: Isolation, ends: Ends, until_s: float, clock: Callable[[], float]
) -> None:
    from edgeveil.edge_runtime.pipeline.camera_aid import edges, value_range
    from edgeveil.edge_runtime.sources import open_source

    check_sensor(source, manifest.input.sensor)
    if not fact_of(SOURCES, source, "writes_files"):
        hardening.no_files()
    low, high = value_range(manifest)
    with open_source(source, manifest.input, manifest.capture) as frames:
        isolation.settle(["numpy"])
        if not frames.live:
            raise BadInput("expected a camera to aim; {} is a file".format(frames.name))
        due_s = 0.0
        while clock() < until_s:
            try:
                raw = frames.next()
            except FrameDropped:
                continue
            if raw is None:
                return
            if clock() >= due_s:
                due_s = clock() + EVERY_S
                _write(ends.edges, edges(raw._data, low=low, high=high))


def _write(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]
