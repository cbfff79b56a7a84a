"""``oak:``: the depth of an OAK-D, by depthai 3, in a process of its own."""

import datetime

import numpy as np

from edgeveil.edge_runtime.errors import Disconnected
from edgeveil.edge_runtime.sources.base import STALL_S, Sensor
from edgeveil.edge_runtime.sources.convert import DepthCamera
from edgeveil.edge_runtime.sources.install_hints import Claim, load

FPS = 30.0


class OakSource(DepthCamera):
    """Depth uint16 (height, width, 1) in the bundle's ``unit_mm``, 0 where there is none, of the first camera or of the
    one with that id. Its two gray cameras give the bundle's size; depth is computed on it."""

    schemes = ("oak",)
    forms = ("oak:", "oak:ID")
    help = "depth of a Luxonis OAK-D on USB, in a process of its own without a network"
    needs = ("oak",)
    apart = True

    def __init__(self, where: str, spec: Sensor) -> None:
        super(OakSource, self).__init__("an OAK-D", "OAK-D " + (where or "(the first)"), spec)
        self._sdk = load("depthai", "an OAK-D is read by depthai", "oak")
        self._claim = Claim("oak " + where)
        self._start(where)

    def _open(self, where: str) -> None:
        sdk, (height, width) = self._sdk, self._spec["shape"][:2]
        try:
            device = sdk.Device(sdk.DeviceInfo(where)) if where else sdk.Device()
            self._pipeline = pipeline = sdk.Pipeline(device)
            stereo = pipeline.create(sdk.node.StereoDepth)
            sides = ((sdk.CameraBoardSocket.CAM_B, stereo.left), (sdk.CameraBoardSocket.CAM_C, stereo.right))
            for socket, side in sides:
                camera = pipeline.create(sdk.node.Camera).build(socket)
                camera.requestOutput((width, height), type=sdk.ImgFrame.Type.GRAY8, fps=FPS).link(side)
            stereo.setOutputSize(width, height)
            self._queue = stereo.depth.createOutputQueue(maxSize=1, blocking=False)
            pipeline.start()
        except RuntimeError as error:
            # The library's text names devices and modes, never a picture.
            problem = (str(error).splitlines() or [""])[0][:120]
            raise Disconnected("{} does not start: {}".format(self.name, problem)) from None
        self._scale = 1.0 / (self._spec["unit_mm"] or 1.0)  # of one mm

    def _read(self) -> np.ndarray:
        try:
            frame = self._queue.get(datetime.timedelta(seconds=STALL_S))
        except RuntimeError:
            raise Disconnected("{} was unplugged".format(self.name)) from None
        if frame is None:
            raise self._stalled()
        return self._in_unit(np.asarray(frame.getFrame()), self._scale)
