"""``realsense:``: the depth of an Intel RealSense, by pyrealsense2; a recording of one as ``realsense:FILE.db3``."""

import os
from typing import Optional

import numpy as np

from edgeveil.edge_runtime.errors import Disconnected, Unsupported
from edgeveil.edge_runtime.sources.base import STALL_S, Sensor
from edgeveil.edge_runtime.sources.convert import DepthCamera
from edgeveil.edge_runtime.sources.install_hints import Claim, load

FPS = 30


class RealSenseSource(DepthCamera):
    """Depth uint16 (height, width, 1) in the bundle's ``unit_mm``, 0 where there is none.

    ``realsense:`` is the first camera found, ``realsense:SERIAL`` the one with that number. A file plays once, at its
    own pace.
    """

    schemes = ("realsense",)
    forms = ("realsense:", "realsense:SERIAL", "realsense:FILE.db3")
    help = "depth of an Intel RealSense, or a recording"
    needs = ("realsense",)
    devices = ("char-usb_device", "char-video4linux")
    groups = ("usb_group", "group")

    def __init__(self, where: str, spec: Sensor) -> None:
        super(RealSenseSource, self).__init__("a RealSense", "RealSense " + (where or "(the first)"), spec)
        self._rs = load("pyrealsense2", "a RealSense is read by pyrealsense2", "realsense")
        self._recording = os.path.isfile(where)
        self._claim = Claim("realsense " + where)
        self._start(where)

    def _open(self, where: str) -> None:
        rs, (height, width) = self._rs, self._spec["shape"][:2]
        config = rs.config()
        if self._recording:
            config.enable_device_from_file(where, repeat_playback=False)
        else:
            if where:
                config.enable_device(where)
            config.enable_stream(rs.stream.depth, width, height, rs.format.z16, FPS)
        pipeline = rs.pipeline()
        try:
            profile = pipeline.start(config)
            sensor = profile.get_device().first_depth_sensor()
            unit_mm = sensor.get_depth_scale() * 1000.0
        except RuntimeError as error:
            # The library's text names modes and devices, never a picture.
            problem = str(error).splitlines()[0][:120]
            kind = Unsupported if "resolve" in problem else Disconnected
            raise kind("{} does not start at {} x {}: {}".format(self.name, height, width, problem)) from None
        self._pipeline = pipeline
        self._scale = unit_mm / (self._spec["unit_mm"] or 1.0)

    def _read(self) -> Optional[np.ndarray]:
        try:
            frames = self._pipeline.wait_for_frames(int(STALL_S * 1000))
        except RuntimeError:
            if self._recording:
                return None
            raise self._stalled() from None
        return self._in_unit(np.asanyarray(frames.get_depth_frame().get_data()), self._scale)
