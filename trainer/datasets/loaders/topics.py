"""Messages of topics as rows: those of the topic of x, each with the last message of every other one before it."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.columns import Table, column_of, listed, nfc
from edgeveil.trainer.datasets.loaders.films import FILE
from edgeveil.trainer.datasets.loaders.formats import TIME, Samples, below
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.messages import nearest

RAW = ("sensor_msgs/msg/Image", "sensor_msgs/Image", "foxglove.RawImage")
PACKED = ("sensor_msgs/msg/CompressedImage", "sensor_msgs/CompressedImage", "foxglove.CompressedImage")
# Of a picture's samples: the type and the channels of each pixel (sensor_msgs/image_encodings.hpp).
ENCODINGS = {
    **dict.fromkeys(("mono8", "8UC1"), ("u1", 1)),
    **dict.fromkeys(("mono16", "16UC1"), ("u2", 1)),
    **dict.fromkeys(("rgb8", "bgr8", "8UC3"), ("u1", 3)),
    "32FC1": ("f4", 1),
}
BLUE_FIRST = ("bgr8", "8UC3")
PNG = b"\x89PNG"
DEPTH_HEAD = 12  # bytes before the PNG of a compressedDepth
DEEPEST = 6


class Message(NamedTuple):
    """One message of a topic; ``read`` gives its fields, None where its type is not known."""

    topic: str
    time_ns: int
    kind: str
    read: Callable[[], Mapping[str, Any] | None]


Stream = Callable[[Path], Iterator[Message]]


def table(path: Path, files: Sequence[Path], stream: Stream, gone: Collection[str], x: str | None) -> Table:
    """The messages of a topic, ``x`` (TOPIC or TOPIC.FIELD), as rows; of several files one after the other.

    Columns are ``file``, ``time`` in seconds from the first message of the file, the fields of that topic, and those
    of others as ``TOPIC.FIELD``, or ``TOPIC`` where it has one, with what they were at that time. Raises ``BadInput``.
    """
    kinds, counts, unknown, arrays = dict[str, str](), Counter[str](), set[str](), dict[str, list[str]]()
    for file in files:
        for one in stream(file):
            if one.topic not in kinds:  # what it has, its first message shows
                kinds[one.topic], fields = one.kind, one.read()
                if fields is None:
                    unknown.add(one.topic)
                else:
                    arrays[one.topic] = [] if one.kind in RAW + PACKED else list(_flat(fields, np.ndarray))
            counts[one.topic] += 1
    if not counts:
        raise BadInput(f"{path} has no messages. Record again.")
    topic, field = _topic(path, x, kinds, counts, unknown, arrays)
    if unknown:
        say(f"note: {path}: left out are {listed(sorted(unknown), most=4)}: their types are not ROS's own")
    rows, times, names = list[dict[str, Any]](), list[float](), list[str]()
    for file, name in zip(files, below(path, files), strict=True):
        own, others, seconds = _of_file(stream(file), topic, unknown)
        rows += _joined(own, others)
        times += seconds
        names += [nfc(name)] * len(seconds)
    columns = {FILE: column_of(names, gone, f"{path}: {FILE}"), TIME: column_of(times, gone, f"{path}: {TIME}")}
    for name in dict.fromkeys(name for row in rows for name in row):
        columns[name] = column_of([row.get(name) for row in rows], gone, f"{path}: {name}")
    fields = {topic: ""} if kinds[topic] in RAW + PACKED else {f"{topic}.{one}": one for one in arrays[topic]}
    if field or len(fields) == 1:
        fields = {x or topic: field or next(iter(fields.values()))}
    found = {
        name: Samples(f"{path}: {name}", len(rows), _Forward(files, stream, topic, one)) for name, one in fields.items()
    }
    return Table(path, columns, found)


def _topic(
    path: Path,
    x: str | None,
    kinds: Mapping[str, str],
    counts: Mapping[str, int],
    unknown: Collection[str],
    arrays: Mapping[str, Sequence[str]],
) -> tuple[str, str]:
    """The topic of x and its field, "" where it has one. Raises ``BadInput`` with what the file has."""
    shown = ", ".join(f"{topic} ({kinds[topic] or 'no type'}, {counts[topic]})" for topic in sorted(kinds)[:12])
    if x is None:
        likely = [one for one in kinds if one not in unknown and (kinds[one] in RAW + PACKED or arrays[one])]
        left = likely or [one for one in kinds if one not in unknown]
        if len(left) == 1:
            return left[0], ""
        raise BadInput(f"{path}: which topic is x? It has {shown}: name it: {path}#TOPIC.")
    topic = max((one for one in kinds if x == one or x.startswith(f"{one}.")), key=len, default="")
    field = x[len(topic) + 1 :]
    if topic in unknown:
        raise BadInput(
            f"{path}: {topic} is of the type {kinds[topic]}, whose definition comes with the file, and is not run. "
            "Record it as a type of ROS's own packages, such as sensor_msgs/Image or std_msgs/String."
        )
    if not topic or (field and field not in arrays[topic]):
        raise BadInput(f"{path}: there is no topic {x}{nearest(x, kinds)}; it has {shown}.")
    return topic, field


class _Forward:
    """The samples of a topic, read from the files as they are asked for; rows that go forward are read once."""

    def __init__(self, files: Sequence[Path], stream: Stream, topic: str, field: str) -> None:
        self._files, self._stream, self._topic, self._field = files, stream, topic, field
        self._at = 0
        self._open: Iterator[Message] = iter(())

    def __call__(self, rows: Iterable[int]) -> Iterator[Any]:
        for row in rows:
            if row < self._at or not self._at:
                self._at = 0
                self._open = (one for file in self._files for one in self._stream(file) if one.topic == self._topic)
            found = next(islice(self._open, row - self._at, None))
            self._at = row + 1
            fields = found.read() or {}
            if found.kind in RAW:
                yield _picture(fields)
            elif found.kind in PACKED:
                yield _packed(fields)
            else:
                yield np.atleast_1d(_flat(fields, np.ndarray)[self._field])


def _bytes(data: Any) -> bytes:
    return base64.b64decode(data, validate=True) if isinstance(data, str) else bytes(data)


def _packed(fields: Mapping[str, Any]) -> bytes:
    data = _bytes(fields["data"])
    return (
        data[DEPTH_HEAD:] if "compressedDepth" in str(fields.get("format")) and data[DEPTH_HEAD:][:4] == PNG else data
    )


def _picture(fields: Mapping[str, Any]) -> np.ndarray:
    """(height, width, channels) of a message, colour as RGB."""
    encoding = str(fields["encoding"])
    if encoding not in ENCODINGS:
        raise ValueError(f"its encoding is {encoding[:20]!r}; {', '.join(ENCODINGS)} are read")
    kind, channels = ENCODINGS[encoding]
    dtype = np.dtype((">" if fields.get("is_bigendian") else "<") + kind)
    height, width, step = (int(fields[name]) for name in ("height", "width", "step"))
    data, row = _bytes(fields["data"]), width * channels * dtype.itemsize
    if not 0 < row <= step or not 0 < height * step <= len(data):
        raise ValueError(f"{len(data)} bytes are no picture of {width} x {height}, {encoding}")
    lines = np.frombuffer(data, np.uint8, height * step).reshape(height, step)[:, :row]
    found = np.ascontiguousarray(lines).view(dtype).reshape(height, width, channels).astype(kind)
    return found[:, :, ::-1] if encoding in BLUE_FIRST else found


def _of_file(
    found: Iterable[Message], topic: str, unknown: Collection[str]
) -> tuple[list[tuple[int, dict[str, Any]]], dict[str, list[tuple[int, dict[str, Any]]]], list[float]]:
    """Time and single values of each message of ``topic``, and of the others by topic; the seconds of the first."""
    own, others, first = list[tuple[int, dict[str, Any]]](), dict[str, list[tuple[int, dict[str, Any]]]](), None
    for one in found:
        first = one.time_ns if first is None else min(first, one.time_ns)
        if one.topic in unknown:
            continue
        values = {} if one.kind in RAW + PACKED else _flat(one.read() or {}, (int, float, str, bool, np.generic))
        if one.topic == topic:
            own.append((one.time_ns, values))
        else:
            alone = len(values) == 1
            named = {one.topic if alone else f"{one.topic}.{name}": value for name, value in values.items()}
            others.setdefault(one.topic, []).append((one.time_ns, named))
    return own, others, [(time - (first or 0)) * 1e-9 for time, _ in own]


def _joined(
    own: Sequence[tuple[int, dict[str, Any]]], others: Mapping[str, list[tuple[int, dict[str, Any]]]]
) -> list[dict[str, Any]]:
    """The values of each message with those that the last one of every other topic had by then."""
    rows = [dict(values) for _, values in own]
    times = np.array([time for time, _ in own], np.int64)
    for found in others.values():
        found.sort(key=lambda one: one[0])
        place = np.searchsorted(np.array([time for time, _ in found], np.int64), times, side="right") - 1
        for row, at in zip(rows, place.tolist(), strict=True):
            row.update(found[at][1] if at >= 0 else {})
    return rows


def _flat(fields: Mapping[str, Any], kinds: Any, prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """The values of these types by their path, without heads (whose time is the recorder's) and covariances."""
    found = dict[str, Any]()
    for name, one in fields.items() if depth < DEEPEST else ():
        inner = one if isinstance(one, Mapping) else getattr(one, "__dict__", None)
        if name.startswith("__") or name == "header" or name.endswith("covariance"):
            continue
        if isinstance(one, list) and one and all(type(value) in (int, float) for value in one):
            one = np.array(one)  # JSON
        if isinstance(one, kinds):
            found[nfc(f"{prefix}{name}")] = one.item() if isinstance(one, np.generic) else one
        elif inner is not None and not isinstance(one, np.ndarray):
            found |= _flat(inner, kinds, f"{prefix}{name}.", depth + 1)
    return found
