"""``simulate:depth?seed=1&people=2&fps=30``: a simulated doorway, for demonstrations and load tests; no sensor."""

from typing import Optional

import numpy as np

from edgeveil.edge_runtime.errors import Unsupported
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.sources.base import Pace, Sensor, Source, now_ns
from edgeveil.edge_runtime.util.simulated_scene import FLOOR_MM, SCENE_FPS, Scene, scene_options


class SimulatedSource(Source):
    """Depth pictures of ``Scene`` at the bundle's size, in mm for 16 bits, 255 at the floor for 8.

    ``seed`` whole, ``people`` 0 to 8 at a time, ``fps`` above 0, or 0 for as fast as the loop takes them (the
    scene's clock is then 30 a second).
    """

    schemes = ("simulate",)
    forms = ("simulate:depth?seed=0&people=2&fps=30",)
    help = "SIMULATED people under an overhead depth camera"
    sensor = "depth"
    gives = "depth pictures"
    axes = 3
    channels = (1,)
    shared = True
    devices = ()
    calls = ""
    live = True
    simulated = True

    def __init__(self, where: str, spec: Sensor) -> None:
        options = scene_options(where)
        if spec["kind"] != "image" or spec["shape"][2] != 1 or spec["dtype"] not in ("uint8", "uint16"):
            raise Unsupported(
                "a simulated depth camera gives uint8 or uint16 (height, width, 1); this bundle wants {} {}. "
                "Use npz:FILE.".format(spec["dtype"], spec["shape"])
            )
        self._fps = options["fps"]
        self._pace = Pace() if self._fps else None
        self._scene = Scene(seed=options["seed"], people=options["people"], shape=tuple(spec["shape"][:2]))
        self._scale = 255.0 / FLOOR_MM if spec["dtype"] == "uint8" else 1.0 / (spec["unit_mm"] or 1.0)
        self._dtype: np.dtype = np.dtype(spec["dtype"])
        self._next = 0
        self.name = "simulate:depth (SIMULATED: no sensor, no one was seen)"

    def next(self) -> Optional[RawFrame]:
        """The next picture, when its time has come."""
        index, self._next = self._next, self._next + 1
        seconds = index / (self._fps or SCENE_FPS)
        if self._pace:
            self._pace.wait(seconds)
        depth = self._scene.frame(seconds)
        if self._scale != 1.0:
            depth = np.minimum(np.rint(depth * self._scale), np.iinfo(self._dtype).max).astype(self._dtype)
        return RawFrame(depth[:, :, None], index, now_ns())
