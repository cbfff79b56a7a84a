"""``mcap:FILE.mcap``: the outputs as topics of ROS 2, for Foxglove, RViz and `edgeveil recipe new`; through mcap and
rosbags.

``RosFile`` writes such a file, `edgeveil data open --out x.mcap` too: the main output is /x, a label /NAME.
"""

import contextlib
import os
from typing import IO, Any, Dict, List, Optional

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.frames import PerturbedFrame
from edgeveil.edge_runtime.late_imports import load
from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.sinks.base import Sink, abandon
from edgeveil.edge_runtime.sinks.uri import Known
from edgeveil.edge_runtime.sinks.video import rate
from edgeveil.edge_runtime.sinks.wire import Labels
from edgeveil.edge_runtime.util import atomic
from edgeveil.edge_runtime.util.atomic import atomic_path, file_place, writing

X = "/x"
IMAGE, TEXT, TIME, HEADER = (
    "sensor_msgs/msg/Image",
    "std_msgs/msg/String",
    "builtin_interfaces/msg/Time",
    "std_msgs/msg/Header",
)
# Type and channels of a pixel -> its name in sensor_msgs/image_encodings.hpp; of other arrays the type of message.
ENCODINGS = {("u1", 1): "mono8", ("u2", 1): "mono16", ("u1", 3): "rgb8", ("f4", 1): "32FC1"}
ARRAYS = {
    **{"u{}".format(size): "UInt{}".format(8 * size) for size in (1, 2, 4, 8)},
    **{"i{}".format(size): "Int{}".format(8 * size) for size in (1, 2, 4, 8)},
    "f4": "Float32",
    "f8": "Float64",
}
_CHUNK = 2**20  # bytes that the writer keeps before it writes them


def is_picture(value: np.ndarray) -> bool:
    """Whether an array is written as sensor_msgs/Image."""
    return value.ndim == 3 and (value.dtype.str[1:], value.shape[-1]) in ENCODINGS


class RosFile(object):
    """Messages of ROS 2 as an MCAP file, into ``stream``. Raises ``Missing`` without mcap and rosbags."""

    def __init__(self, stream: IO[bytes]) -> None:
        module = load("mcap.writer", "MCAP files need mcap", "mcap")
        typesys: Any = load("rosbags.typesys", "MCAP files need rosbags", "rosbags")
        self._store = typesys.get_typestore(typesys.Stores.ROS2_JAZZY)
        self._writer = module.Writer(stream, chunk_size=_CHUNK)
        self._writer.start("ros2", "edgeveil")
        self._schemas: Dict[str, int] = {}
        self._channels: Dict[str, int] = {}
        self._texts: Dict[str, str] = {}

    def array(self, topic: str, now_ns: int, value: np.ndarray) -> None:
        """A picture (height, width, channels) as sensor_msgs/Image, any other array as std_msgs/...MultiArray."""
        types, kind = self._store.types, value.dtype.str[1:]
        flat = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False).reshape(-1)
        if is_picture(value):
            data = flat.view(np.uint8)
            stamp = types[TIME](sec=now_ns // 10**9, nanosec=now_ns % 10**9)
            size = {"height": value.shape[0], "width": value.shape[1], "step": len(data) // value.shape[0]}
            encoding, header = ENCODINGS[(kind, value.shape[-1])], types[HEADER](stamp, topic[1:])
            self._add(topic, now_ns, IMAGE, header=header, encoding=encoding, is_bigendian=0, data=data, **size)
            return
        name, steps = "std_msgs/msg/{}MultiArray".format(ARRAYS[kind]), np.cumprod((*value.shape, 1)[::-1])[::-1]
        dimension = types["std_msgs/msg/MultiArrayDimension"]
        dims = [dimension("", size, int(stride)) for size, stride in zip(value.shape, steps)]
        layout = types["std_msgs/msg/MultiArrayLayout"](dims, 0)
        self._add(topic, now_ns, name, layout=layout, data=flat)

    def text(self, topic: str, now_ns: int, value: str) -> None:
        """A std_msgs/String, where the topic had another before."""
        if self._texts.get(topic) != value:
            self._texts[topic] = value
            self._add(topic, now_ns, TEXT, data=value)

    def finish(self) -> None:
        """Write what is left, and the index."""
        self._writer.finish()

    def _add(self, topic: str, now_ns: int, kind: str, **fields: Any) -> None:
        if kind not in self._schemas:
            definition = self._store.generate_msgdef(kind, ros_version=2)[0].encode()
            self._schemas[kind] = self._writer.register_schema(kind, "ros2msg", definition)
        if topic not in self._channels:
            self._channels[topic] = self._writer.register_channel(topic, "cdr", self._schemas[kind])
        data = self._store.serialize_cdr(self._store.types[kind](**fields), kind)
        self._writer.add_message(self._channels[topic], now_ns, bytes(data), now_ns)


class McapSink(Sink):
    """The main output as /x, others as /NAME, labels with their class from where they begin; below /slot_N where a
    tick has several. The time is that of the tick; of a file source it counts from 0 by ``fps``."""

    schemes = ("mcap",)
    forms = ("mcap:FILE.mcap",)
    help = "topics of ROS 2: `/x`, and `/NAME` of other outputs and labels; `fps=10` where frames have no time"
    file = True
    needs = ("mcap", "rosbags")
    part = ".mcap"
    named = True
    options: Known = {"fps": rate}  # noqa: RUF012 - never written to

    def __init__(
        self, path: str, outputs: List[Output], *, fps: float = 10.0, manifest: Optional[Manifest] = None
    ) -> None:
        if not path.lower().endswith(".mcap") or not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise BadInput("expected a name ending in .mcap in a folder that exists; got {}".format(path))
        file_place(path)
        self._path, self._fps = path, fps
        self._labels = Labels("", outputs, manifest)
        self._topics = {one.name: "/" + one.name for one in outputs}
        self._topics[outputs[0].name] = X
        kinds = [np.dtype(one.dtype).itemsize * int(np.prod(one.shape, dtype=np.int64)) for one in outputs]
        self._frame_bytes = sum(kinds) + 2 * _CHUNK
        self._whole = contextlib.ExitStack()
        try:
            temporary = self._whole.enter_context(atomic_path(path, keep_old=True))
            self._stream: Any = self._whole.enter_context(open(temporary, "wb"))  # noqa: SIM115
            self._file = RosFile(self._stream)
        except BaseException:
            self.discard()
            raise

    def _write(self, frame: PerturbedFrame) -> None:
        atomic.require(self._path, self._frame_bytes)
        now_ns = int(frame.index * 1e9 / self._fps) if frame.tick_ns is None else frame.tick_ns
        below = "/slot_{}".format(frame.slot) if self._labels.slots > 1 else ""
        with writing(self._path):
            for name, value in frame.outputs.items():
                if name in self._labels.names:
                    label = int(value)
                    self._file.text(below + self._topics[name], now_ns, self._labels.name_of(label) or str(label))
                else:
                    self._file.array(below + self._topics[name], now_ns, np.atleast_1d(value))

    def close(self) -> None:
        """Write the index, and give the file its name."""
        with writing(self._path):
            self._file.finish()
            self._stream.close()
            self._whole.close()

    def discard(self) -> None:
        """Remove the file."""
        abandon(self._whole)
