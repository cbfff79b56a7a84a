"""``gst:PIPELINE``: anything that GStreamer can open, such as ``gst:nvarguscamerasrc ! nvvidconv``; by PyGObject.

The pipeline must not have a sink: raw pictures would go there too.
"""

import contextlib
import importlib
import re
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, Disconnected, FrameDropped, Missing, Stalled, Unsupported
from edgeveil.edge_runtime.sources.base import STALL_S, Camera, Sensor
from edgeveil.edge_runtime.sources.convert import need_image
from edgeveil.edge_runtime.sources.install_hints import missing

FORMATS = {("uint8", 1): "GRAY8", ("uint8", 3): "RGB", ("uint16", 1): "GRAY16_LE"}
_SINK = re.compile(r"\b\w*sink\b")
_NETWORK = re.compile(r"\b(rtsp|udp|tcpclient|tcpserver|souphttp|curlhttp|neonhttp|rtmp|srt|rist|uri|mms|hls|dash)\w*")


class GstSource(Camera):
    """The newest picture, at the bundle's size and type: gray or RGB of 8 bits, gray of 16."""

    schemes = ("gst",)
    forms = ("gst:PIPELINE",)
    help = (
        "GStreamer, such as `gst:nvarguscamerasrc ! nvvidconv` on a Jetson; gray, RGB or 16-bit gray. The pipeline "
        "must have no sink and read no network. `nvarguscamerasrc` runs in a process of its own, which has its "
        "daemon's socket and no network"
    )
    needs = ("gstreamer",)
    daemon = r"(?s).*\bnvarguscamerasrc\b"
    devices = ("char-video4linux",)
    groups = ("group",)
    writes_files = True  # in shared memory, which a limit on what a process may write covers

    def __init__(self, where: str, spec: Sensor) -> None:
        need_image(spec, "GStreamer")
        if not where or _SINK.search(where):
            raise BadInput("expected gst:PIPELINE without a sink at its end: raw pictures go nowhere else")
        if _NETWORK.search(where):
            raise BadInput(
                "cameras on the network are for rtsp:// or http://, which say that raw pictures travel there"
            )
        form = FORMATS.get((spec["dtype"], spec["shape"][2]))
        if form is None:
            raise Unsupported("GStreamer gives gray or RGB uint8 or gray uint16; this bundle takes another type")
        super(GstSource, self).__init__("GStreamer pipeline", spec)
        self._gst = _gstreamer()
        height, width = spec["shape"][:2]
        end = "videoconvert ! video/x-raw,format={},width={},height={} ! appsink name=edgeveil {}".format(
            form, width, height, "max-buffers=1 drop=true sync=false"
        )
        try:
            self._pipeline = self._gst.parse_launch("{} ! {}".format(where, end))
        except self._gst.glib.Error as error:
            raise BadInput("GStreamer does not understand this pipeline: {}".format(error.message[:200])) from None
        self._sink = self._pipeline.get_by_name("edgeveil")
        self._start(where)

    @classmethod
    def prepare(cls, source: str) -> None:  # noqa: ARG003
        """Load GStreamer and its list of plugins, which a program of its own writes."""
        load()

    def _open(self, where: str) -> None:  # noqa: ARG002 - the pipeline is made of it
        self._pipeline.set_state(self._gst.State.PLAYING)
        self._ahead = self._read()

    def _read(self) -> np.ndarray:
        sample = self._sink.emit("try-pull-sample", int(STALL_S * 1e9))
        if sample is not None:
            return self._picture(sample)
        message = self._pipeline.get_bus().pop_filtered(self._gst.MessageType.ERROR)
        if message is not None:
            problem = message.parse_error()[0].message[:200]
            kind = Unsupported if "not-negotiated" in problem or "negotiat" in problem else Disconnected
            raise kind("{} failed: {}. It must give {}.".format(self.name, problem, tuple(self._spec["shape"])))
        if self._sink.get_property("eos"):
            raise Disconnected("{} has ended".format(self.name))
        raise Stalled("{} gave no picture for {:.0f} s".format(self.name, STALL_S))

    def _picture(self, sample: Any) -> np.ndarray:
        buffer = sample.get_buffer()
        good, mapped = buffer.map(self._gst.MapFlags.READ)
        if not good:
            raise FrameDropped("unreadable")
        try:
            (height, width, channels), dtype = self._spec["shape"], np.dtype(self._spec["dtype"])
            # Rows are padded to four bytes.
            rows = np.frombuffer(mapped.data, np.uint8)[: mapped.size // height * height].reshape(height, -1)
            row = width * channels * dtype.itemsize
            if rows.shape[1] < row:
                raise FrameDropped("shape")
            return np.array(rows[:, :row]).view(dtype).reshape(height, width, channels)
        finally:
            buffer.unmap(mapped)

    def close(self) -> None:
        """Stop the pipeline."""
        self._pipeline.set_state(self._gst.State.NULL)


def load() -> None:
    """Load GStreamer and its list of plugins, for a process that may start no program afterwards."""
    with contextlib.suppress(Missing):  # the source says so as it is opened
        _gstreamer()


def _gstreamer() -> Any:
    """GStreamer through PyGObject, started. Raises ``Missing``."""
    try:
        gi = importlib.import_module("gi")
        gi.require_version("Gst", "1.0")
        gst: Any = importlib.import_module("gi.repository.Gst")
        gst.glib = importlib.import_module("gi.repository.GLib")
    except Exception as error:  # a ValueError where the typelib is not there
        raise missing("pipelines are run by GStreamer", "gstreamer", error=error) from None
    gst.init(None)
    return gst
