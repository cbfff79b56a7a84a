"""The rate of the whole loop: frames in memory through capture, perturber, watchdog and the pipe to the outside.

It is the loop of the service (``live.LiveLoop``) without ticks, so that it runs as fast as it can; a process at the
other end of the pipe only empties it. Reading a camera and delivering to a broker are not included.
"""

import os
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.sources.base import Source

_DRAIN = "import os\nwhile os.read(0, 1 << 20): pass"


class Ready(Source):
    """Frames from memory, each given when the model has taken the one before."""

    live = True

    def __init__(self, frames: List[RawFrame], ended: Callable[[], bool]) -> None:
        self._frames, self._ended, self._index = frames, ended, 0
        self.taken = threading.Lock()  # held from when a frame is given to when the model takes it

    def next(self) -> Optional[RawFrame]:
        """The next frame, or None when the time is up."""
        self.taken.acquire()
        if self._ended():
            return None
        self._index += 1
        # A copy, as a driver makes one: the loop erases it after use.
        return RawFrame(self._frames[self._index % len(self._frames)]._data.copy(), self._index)


def measure(perturber: Any, frames: List[RawFrame], seconds: float) -> Dict[str, Any]:
    """Frames a second out of the pipe, and their count; ``frames`` are the source's."""
    from edgeveil.edge_runtime.ipc.counters import Counters, Schedule
    from edgeveil.edge_runtime.ipc.notes import Pipe, widen
    from edgeveil.edge_runtime.ipc.record import Layout
    from edgeveil.edge_runtime.pipeline.crops import Capture
    from edgeveil.edge_runtime.pipeline.live import LiveLoop
    from edgeveil.edge_runtime.sandbox.watchdog import Watchdog

    read, write = os.pipe()
    widen(write)
    drain = subprocess.Popen([sys.executable, "-c", _DRAIN], stdin=read)  # noqa: S603  our own text
    os.close(read)
    layout, pipe, counters = Layout(perturber.manifest.outputs), Pipe(write), Counters()
    begun: List[float] = []
    source = Ready(frames, lambda: bool(begun) and time.perf_counter() - begun[0] > seconds)
    live = LiveLoop(
        _Releasing(perturber, source),
        Schedule(1e-9, 1, "previous", 60.0, 1),
        open_source=lambda: source,
        capture=Capture(perturber.manifest),
        send=lambda sets: pipe.write(layout.pack(sets[0], 0)),
        counters=counters,
        watchdog=Watchdog(60.0, put_off=lambda _: None),
        note=lambda *_: None,
        max_latency_s=60.0,
        recheck_s=1e9,
    )
    try:
        live.flat()
        begun.append(time.perf_counter())
        live.run(source)
        spent = time.perf_counter() - begun[0]
    finally:
        os.close(write)
        drain.wait()
    count = counters.get("sets-out")
    return {"fps": count / spent, "count": count, "seconds": spent}


class _Releasing(object):
    """A perturber that tells the source when the model takes a frame, so that no frame replaces another.

    Each set is sent when it is made, also where an epsilon is promised: what is asked is how many there can be.
    """

    promises = False

    def __init__(self, perturber: Any, source: Ready) -> None:
        self._perturber, self._source = perturber, source

    def infer(self, in_flight: Any) -> None:
        self._source.taken.release()
        self._perturber.infer(in_flight)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._perturber, name)
