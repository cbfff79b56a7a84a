"""``realsense:``: the depth of an Intel RealSense, by pyrealsense2; a recording of one as ``realsense:FILE.db3``."""

import os
from typing import Any, Optional

import numpy as np

from edgeveil.edge_runtime.errors import Disconnected, Stalled, Unsupported
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.sources.base import STALL_S, Freshness, Sensor, Source, now_ns
from edgeveil.edge_runtime.sources.cameras.install_hints import load
from edgeveil.edge_runtime.sources.cameras.lock import Claim
from edgeveil.edge_runtime.sources.convert import need_depth

FPS = 30


class RealSenseSource(Source):
    """Depth uint16 (height, width, 1) in the bundle's ``unit_mm``, 0 where there is no reading.

    ``realsense:`` is the first camera found, ``realsense:SERIAL`` the one of that number. A file plays once, at its own
    pace.
    """

    live = True

    def __init__(self, where: str, spec: Sensor, freshness: Optional[Freshness] = None) -> None:
        need_depth(spec, "a RealSense")
        self._rs = load("pyrealsense2", "a RealSense is read by pyrealsense2", "realsense")
        self.name = "RealSense " + (where or "(the first)")
        self._spec, self._recording = spec, os.path.isfile(where)
        self._fresh = freshness or Freshness(self.name)
        self._claim = Claim("realsense " + where)
        self._pipeline: Any = None
        self._next = 0
        try:
            self._open(where)
        except BaseException:
            self.close()
            raise

    def _open(self, where: str) -> None:
        rs, (height, width) = self._rs, self._spec["shape"][:2]
        config = rs.config()
        if self._recording:
            config.enable_device_from_file(where, repeat_playback=False)
        else:
            if where:
                config.enable_device(where)
            config.enable_stream(rs.stream.depth, width, height, rs.format.z16, FPS)
        pipeline, problem = rs.pipeline(), None
        try:
            profile = pipeline.start(config)
            sensor = profile.get_device().first_depth_sensor()
            unit_mm = sensor.get_depth_scale() * 1000.0
        except RuntimeError as error:
            # The library's own words; they name modes and devices, never a picture.
            problem = str(error).splitlines()[0][:120]
        if problem is not None:
            kind = Unsupported if "resolve" in problem else Disconnected
            raise kind("{} does not start at {} x {}: {}".format(self.name, height, width, problem))
        self._pipeline = pipeline
        self._scale = unit_mm / (self._spec["unit_mm"] or 1.0)

    def next(self) -> Optional[RawFrame]:
        """The next picture, waited for at most 5 s; None at the end of a recording."""
        frames = None
        try:
            frames = self._pipeline.wait_for_frames(int(STALL_S * 1000))
        except RuntimeError:
            pass  # raised below, without the library's error as its cause
        if frames is None and self._recording:
            return None
        if frames is None:
            raise Stalled("{} gave no picture for {:.0f} s: unplug it and plug it in again".format(self.name, STALL_S))
        taken = now_ns()
        depth = np.array(np.asanyarray(frames.get_depth_frame().get_data()))
        if list(depth.shape) != list(self._spec["shape"][:2]):
            raise Unsupported(
                "{} gives depth of {}; this bundle takes {}. Export for this camera.".format(
                    self.name, depth.shape, tuple(self._spec["shape"][:2])
                )
            )
        if abs(self._scale - 1.0) > 1e-6:
            depth = np.minimum(np.rint(depth * self._scale), 65535).astype(np.uint16)
        self._fresh.check(depth)
        index, self._next = self._next, self._next + 1
        return RawFrame(depth[:, :, None], index, taken)

    def close(self) -> None:
        """Stop the camera and let it go."""
        if self._pipeline is not None:
            self._pipeline.stop()
            self._pipeline = None
        self._claim.release()
