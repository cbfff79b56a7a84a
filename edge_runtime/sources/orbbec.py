"""``orbbec:``: the depth of an Orbbec camera (Gemini, Femto, Astra 2), by pyorbbecsdk2, in a process of its own."""

import numpy as np

from edgeveil.edge_runtime.errors import Disconnected, Unsupported
from edgeveil.edge_runtime.sources.base import STALL_S, Sensor
from edgeveil.edge_runtime.sources.convert import DepthCamera
from edgeveil.edge_runtime.sources.install_hints import Claim, load

FPS = 30


class OrbbecSource(DepthCamera):
    """Depth uint16 (height, width, 1) in the bundle's ``unit_mm``, 0 where there is none, of the first camera or of the
    one with that serial number."""

    schemes = ("orbbec",)
    forms = ("orbbec:", "orbbec:SERIAL")
    help = "depth of an Orbbec camera, in a process of its own without a network"
    needs = ("orbbec",)
    apart = True
    devices = ("char-usb_device", "char-video4linux")
    groups = ("usb_group", "group")

    def __init__(self, where: str, spec: Sensor) -> None:
        super(OrbbecSource, self).__init__("an Orbbec camera", "Orbbec " + (where or "(the first)"), spec)
        self._sdk = load("pyorbbecsdk", "an Orbbec camera is read by pyorbbecsdk2", "orbbec")
        self._claim = Claim("orbbec " + where)
        self._start(where)

    def _open(self, where: str) -> None:
        sdk, (height, width) = self._sdk, self._spec["shape"][:2]
        try:
            self._context = sdk.Context()
            devices = self._context.query_devices()
            if devices.get_count() == 0:
                raise Disconnected("there is no Orbbec camera: plug it in")
            device = devices.get_device_by_serial_number(where) if where else devices.get_device_by_index(0)
            pipeline, config = sdk.Pipeline(device), sdk.Config()
            profiles = pipeline.get_stream_profile_list(sdk.OBSensorType.DEPTH_SENSOR)
            config.enable_stream(profiles.get_video_stream_profile(width, height, sdk.OBFormat.Y16, FPS))
        except sdk.OBError as error:
            # The library's text names modes and devices, never a picture.
            problem = str(error).splitlines()[0][:120]
            raise Unsupported("{} has no depth of {} x {}: {}".format(self.name, height, width, problem)) from None
        try:
            pipeline.start(config)
        except sdk.OBError as error:
            raise Disconnected("{} does not start: {}".format(self.name, str(error).splitlines()[0][:120])) from None
        self._pipeline = pipeline

    def _read(self) -> np.ndarray:
        try:
            frames = self._pipeline.wait_for_frames(int(STALL_S * 1000))
        except self._sdk.OBError:
            raise Disconnected("{} was unplugged".format(self.name)) from None
        frame = None if frames is None else frames.get_depth_frame()
        if frame is None:
            raise self._stalled()
        size = frame.get_height(), frame.get_width()
        data = np.frombuffer(bytes(frame.get_data()), "<u2").reshape(size)
        return self._in_unit(data, frame.get_depth_scale() / (self._spec["unit_mm"] or 1.0))
