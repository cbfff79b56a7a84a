"""The rate of the whole loop: frames through decoder, capture, perturber, watchdog and the pipe to the outside.

It is the loop of the service (``live.LiveLoop``) without ticks, so that it runs as fast as it can; a process at the
other end of the pipe only empties it. Frames are those of the sensor: where the manifest has a ``capture``, they have
its shape, and where it cuts out people, there are people (``util.simulated_scene``). Cameras of 8 bits give JPEGs,
which are decoded where OpenCV is installed. Reading a camera and delivering to a broker are not included.
"""

import os
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import Missing
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.late_imports import opencv
from edgeveil.edge_runtime.manifest.manifest import CaptureRules, Manifest, expected
from edgeveil.edge_runtime.sources.base import Sensor, Source

_DRAIN = "import os\nwhile os.read(0, 1 << 20): pass"
COUNT, QUALITY = 16, 85
BLOCK_PX, NOISE = 16, 3  # of a picture that is about as hard to decode as one of a room
Frames = Callable[[int], np.ndarray]  # a copy of the sensor's frame with that number, as a driver makes one


class Ready(Source):
    """Frames from memory, each given when the model has taken the one before."""

    live = True

    def __init__(self, frames: Frames, ended: Callable[[], bool]) -> None:
        self._frames, self._ended, self._index = frames, ended, 0
        self.taken = threading.Lock()  # held from when a frame is given to when the model takes it

    def next(self) -> Optional[RawFrame]:
        """The next frame, or None when the time is up."""
        while not self.taken.acquire(timeout=0.1) and not self._ended():
            pass  # nor is one taken that the capture drops
        if self._ended():
            return None
        self._index += 1
        return RawFrame(self._frames(self._index), self._index)


def sensor_frames(manifest: Manifest, frames: List[RawFrame]) -> Tuple[Frames, bool]:
    """What a sensor gives a bundle, and whether that is decoded; ``frames`` are those of the pipeline's input."""
    capture = manifest.capture
    if capture is None or manifest.input.kind == "series":
        return lambda number: frames[number % len(frames)]._data.copy(), False
    spec = expected(manifest.input, capture)
    if capture.crop is not None:
        from edgeveil.edge_runtime.sources.simulate import SimulatedSource

        scene = SimulatedSource("depth?fps=0", spec)
        scene.skip(60)  # the first people come after a moment
        crowd = [frame._data for frame in (scene.next() for _ in range(COUNT)) if frame is not None]
        return lambda number: crowd[number % COUNT].copy(), False
    pictures = [_random(capture, spec, np.random.RandomState(seed)) for seed in range(COUNT)]
    if spec["kind"] == "image" and spec["dtype"] == "uint8":
        try:
            return _jpegs(pictures, spec), True
        except Missing:
            pass
    return lambda number: pictures[number % COUNT].copy(), False


def _random(capture: CaptureRules, spec: Sensor, rng: np.random.RandomState) -> np.ndarray:
    """Values of a sensor: over its range, in blocks with a little noise where it gives pictures."""
    dtype, shape = np.dtype(spec["dtype"]), spec["shape"]
    limits: Any = None if dtype.kind == "f" else np.iinfo(dtype)
    ends = (0.0, 1.0) if limits is None else (float(limits.min), float(limits.max))
    if capture.low is not None and capture.high is not None:
        unit = (spec["unit_mm"] or 1.0) if capture.measure == "depth" else 1.0
        ends = max(ends[0], capture.low / unit), min(ends[1], capture.high / unit)
    low, high = ends
    if spec["kind"] == "vector":
        return np.asarray(rng.uniform(low, high, shape)).astype(dtype)
    grid = [-(-side // BLOCK_PX) for side in shape[:2]]
    blocks = np.asarray(rng.uniform(low, high, grid + shape[2:])).repeat(BLOCK_PX, axis=0).repeat(BLOCK_PX, axis=1)
    noisy = blocks[: shape[0], : shape[1]] + rng.uniform(-NOISE, NOISE, shape) * (high - low) / 255
    return np.asarray(np.clip(noisy, low, high)).astype(dtype)


def _jpegs(pictures: List[np.ndarray], spec: Sensor) -> Frames:
    """The same as JPEGs, decoded one at a time. Raises ``Missing``."""
    from edgeveil.edge_runtime.sources.convert import decode, fit

    cv2 = opencv()
    files = [cv2.imencode(".jpg", one, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1].tobytes() for one in pictures]
    return lambda number: fit(decode(files[number % COUNT], spec, "a camera"), spec)


def measure(perturber: Any, frames: List[RawFrame], seconds: float) -> Dict[str, Any]:
    """Frames a second out of the pipe, their count, and whether they were decoded; ``frames`` are of the input."""
    from edgeveil.edge_runtime import ext
    from edgeveil.edge_runtime.ipc.counters import Counters, Schedule
    from edgeveil.edge_runtime.ipc.notes import Pipe, widen
    from edgeveil.edge_runtime.ipc.record import Layout
    from edgeveil.edge_runtime.pipeline.crops import Capture
    from edgeveil.edge_runtime.pipeline.live import LiveLoop
    from edgeveil.edge_runtime.sandbox.watchdog import Watchdog

    taken, decodes = sensor_frames(perturber.manifest, frames)
    read, write = os.pipe()
    widen(write)
    drain = subprocess.Popen([sys.executable, "-c", _DRAIN], stdin=read)  # noqa: S603  our own text
    os.close(read)
    layout, pipe, counters = Layout.from_manifest(perturber.manifest), Pipe(write), Counters()
    begun: List[float] = []
    source = Ready(taken, lambda: bool(begun) and time.perf_counter() - begun[0] > seconds)
    capture = Capture(perturber.manifest, ext.counter.Counter.from_manifest(perturber.manifest), perturber.detector)
    live = LiveLoop(
        _Releasing(perturber, source, capture.slots),
        Schedule(1e-9, capture.slots, "previous", 60.0, 1),
        open_source=lambda: source,
        capture=capture,
        send=lambda sets: pipe.write(b"".join(layout.pack(one, 0, slot) for slot, one in enumerate(sets))),
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
    return {"fps": count / spent, "count": count, "seconds": spent, "decodes": decodes}


class _Releasing(object):
    """A perturber that tells the source when the model takes a frame, so that no frame replaces another.

    Each set is sent when it is made, also where an epsilon is promised: what is asked is how many there can be.
    """

    promises = False

    def __init__(self, perturber: Any, source: Ready, slots: int) -> None:
        self._perturber, self._source, self._slots, self._count = perturber, source, slots, 0

    def infer(self, in_flight: Any) -> None:
        if self._count % self._slots == 0:
            self._source.taken.release()
        self._count += 1
        self._perturber.infer(in_flight)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._perturber, name)
