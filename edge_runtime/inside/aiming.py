"""The process of an aim that has the camera: source, and a pipe out of which only edges come, one bit each.

It is cut off as the inside of a service is (``sandbox.isolation``), and no write of its can make a file longer.
"""

import signal
import time
from typing import Any, Callable, Dict, NamedTuple

from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.inside.recording import run_cut_off, write
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

    def work(_document: Dict[str, Any]) -> None:
        isolation = Isolation(source, "numpy")
        isolation.enter(namespace=not needs_network(source, "cpu"))
        _show(manifest, source, isolation, ends, until_s, clock)

    return run_cut_off(work, ends.status, {})


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
                write(ends.edges, edges(raw._data, low=low, high=high))
