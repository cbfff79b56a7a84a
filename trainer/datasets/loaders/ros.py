"""``mcap:PATH`` and ``rosbag:PATH``: recordings of ROS 1 (.bag, also of RealSense cameras) and ROS 2 (.mcap, .db3), and
MCAP files of JSON messages; a file, or all of a folder.

Source: mcap.dev/spec, "Bag format 2.0" of wiki.ros.org; mcap and rosbags read them. A bag comes with definitions of its
messages, which rosbags would turn into Python code: they are ignored. Messages are read as ROS itself defines their
type; one of another type, or whose definition has another checksum, is left out.
"""

from __future__ import annotations

import bz2
import importlib
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sinks.mcap import RosFile, X, is_picture
from edgeveil.edge_runtime.util import strict_json
from edgeveil.trainer.datasets.columns import Table, library
from edgeveil.trainer.datasets.loaders import topics
from edgeveil.trainer.datasets.loaders.formats import Format
from edgeveil.trainer.datasets.loaders.topics import Message

MOST_CHUNK = 2**28  # bytes of a chunk once it is decompressed; recorders begin another one after some megabytes


class Ros(Format):
    """ROS 1, ROS 2 and MCAP, read by rosbags and mcap."""

    names = ("mcap", "rosbag")
    forms = ("mcap:PATH", "rosbag:PATH")
    what = "recordings of ROS or MCAP files"
    endings = ("mcap", "bag", "db3")
    marks = ("metadata.yaml",)
    module = "rosbags"
    extra = "ros"
    timed = True

    @classmethod
    def read(cls, path: Path, gone: Collection[str], x: str | None) -> Table:
        """See ``Format``."""
        library("mcap", cls.what, cls.extra)
        if path.is_dir() and (packed := sorted(path.glob("*.zstd"))):
            raise BadInput(f"{packed[0]} is compressed as a whole: unpack it with zstd -d.")
        return topics.table(path, cls.files(path), messages, gone, x)


def messages(file: Path) -> Iterator[Message]:
    """The messages of a recording as they follow each other in it."""
    return {".mcap": _mcap, ".bag": _bag}.get(file.suffix.lower(), _database)(file)


@lru_cache(maxsize=2)
def typestore(version: int) -> Any:
    """The message types that ROS 1 or 2 defines."""
    typesys = importlib.import_module("rosbags.typesys")
    return typesys.get_typestore(typesys.Stores.ROS1_NOETIC if version == 1 else typesys.Stores.ROS2_JAZZY)


def _ros(version: int, kind: str, data: bytes) -> Mapping[str, Any] | None:
    """The fields of a message; None for a type that ROS does not define."""
    store = typestore(version) if version else None
    if store is None or kind not in store.fielddefs:
        return None
    read = store.deserialize_ros1 if version == 1 else store.deserialize_cdr
    return vars(read(data, kind))


def _mcap(file: Path) -> Iterator[Message]:
    reader, records = (importlib.import_module(f"mcap.{name}") for name in ("stream_reader", "records"))
    schemas, channels = dict[int, Any](), dict[int, Any]()
    with file.open("rb") as stream:
        found = reader.StreamReader(stream, emit_chunks=True, record_size_limit=file.stat().st_size)
        for record in found.records:
            inner = [record]
            if isinstance(record, records.Chunk):
                whole = replace(record, compression="", data=_unpacked(record.compression, record.data))
                inner = reader.breakup_chunk(whole, validate_crc=True)
            for one in inner:
                if isinstance(one, records.Schema):
                    schemas[one.id] = one
                elif isinstance(one, records.Channel):
                    channels[one.id] = one
                elif isinstance(one, records.Message):
                    channel = channels[one.channel_id]
                    schema = schemas.get(channel.schema_id)
                    kind = "" if schema is None else schema.name
                    yield Message(channel.topic, one.log_time, kind, _decoder(channel.message_encoding, kind, one.data))


def _decoder(encoding: str, kind: str, data: bytes) -> Callable[[], Mapping[str, Any] | None]:
    if encoding == "json":
        return partial(_json, data)
    package, _, name = kind.rpartition("/")
    version = {"ros1": 1, "cdr": 2}.get(encoding, 0)
    return partial(_ros, version, f"{package}/msg/{name}" if version == 1 else kind, data)


def _json(data: bytes) -> Mapping[str, Any] | None:
    content = strict_json.loads(data)
    return content if isinstance(content, dict) else None


def _bag(file: Path) -> Iterator[Message]:
    module = importlib.import_module("rosbags.rosbag1.reader")
    methods = {function: "" if name == "none" else name for name, function in module.decompressors.items()}
    with module.Reader(file) as reader:
        for at, chunk in reader.chunks.items():
            reader.chunks[at] = chunk._replace(decompressor=partial(_unpacked, methods[chunk.decompressor]))
        same = {one.id: one.digest == _digest(one.msgtype) for one in reader.connections}
        for one, time_ns, data in reader.messages():
            kind = one.msgtype if same[one.id] else ""
            yield Message(one.topic, time_ns, one.msgtype, partial(_ros, 1, kind, data))


def _digest(kind: str) -> str | None:
    store = typestore(1)
    return store.generate_msgdef(kind)[1] if kind in store.fielddefs else None


def _database(file: Path) -> Iterator[Message]:
    with importlib.import_module("rosbags.rosbag2").Reader(file) as reader:
        for one, time_ns, data in reader.messages():
            yield Message(one.topic, time_ns, one.msgtype, partial(_ros, 2, one.msgtype, data))


def write(path: str, samples: Iterable[np.ndarray], seconds: np.ndarray, labels: Mapping[str, np.ndarray]) -> None:
    """An MCAP file of ROS 2: pictures (height, width, channels) or vectors at their ``seconds`` as the topic /x, and
    each label (rows,), as std_msgs/String of /NAME, each value from where it begins (``RosFile``).

    Raises ``BadInput`` for samples that are neither.
    """
    library("mcap.writer", "MCAP files", Ros.extra)
    with Path(path).open("wb") as stream:
        file = RosFile(stream)
        for row, sample in enumerate(samples):
            now_ns = round(float(seconds[row]) * 1e9)
            if sample.ndim > 1 and not is_picture(sample):
                raise BadInput(
                    "MCAP takes vectors, and pictures of 8 or 16 bits or float32; these are "
                    f"{sample.dtype} {sample.shape}: --out NAME.npz."
                )
            for name in labels:
                file.text(f"/{name}", now_ns, str(labels[name][row]))
            file.array(X, now_ns, sample)
        file.finish()


def _unpacked(method: str, data: bytes) -> bytes:
    """A chunk's bytes. Raises ``ValueError`` where they are more than a recorder makes."""
    if method == "zstd":
        reader = importlib.import_module("zstandard").ZstdDecompressor().stream_reader(io.BytesIO(data))
        found: bytes = reader.read(MOST_CHUNK + 1)
    elif method in ("lz4", "bz2"):
        lz4 = importlib.import_module("lz4.frame")
        decompressor = bz2.BZ2Decompressor() if method == "bz2" else lz4.LZ4FrameDecompressor()
        found = decompressor.decompress(data, MOST_CHUNK + 1)
    elif method:
        raise ValueError(f"a chunk is compressed by {method[:20]!r}")
    else:
        found = data
    if len(found) > MOST_CHUNK:
        raise ValueError(f"a chunk has more than {MOST_CHUNK / 1e6:.0f} MB once it is decompressed")
    return found
