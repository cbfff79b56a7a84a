"""The content of a recording: a head, frames with their times, and what the operator said of them, in order.

Each record is its kind (one byte), its length (four, little-endian) and its bytes. The head and a label are JSON; a
frame is its seconds since the first one (float64), its track (int64) and its samples as the head has their type and
shape. The whole is sealed (``signing.sealed``).
"""

import json
import struct
from typing import Any, Dict, Iterable, Iterator, NamedTuple, Optional, Tuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.late_imports import np

HEAD, FRAME, LABEL, END = b"H", b"F", b"L", b"E"
_START = struct.Struct("<cI")
_FRAME = struct.Struct("<dq")
_MOST_BYTES = 2**30


class Frame(NamedTuple):
    """One sample as the pipeline gets it, with its time (seconds from the first) and its track."""

    seconds: float
    track: int
    data: Any


class Label(NamedTuple):
    """What holds from ``seconds`` on: the class of ``name``; None ends it."""

    seconds: float
    name: str
    value: Optional[str]


def head(facts: Dict[str, Any]) -> bytes:
    """The first record: ``shape`` and ``dtype`` of a sample, ``capture``, ``source`` and ``names`` of labels."""
    return _record(HEAD, json.dumps(dict(facts, schema=1), sort_keys=True).encode())


def frame(one: Frame) -> bytes:
    """The record of a frame."""
    return _record(FRAME, _FRAME.pack(one.seconds, one.track) + np.ascontiguousarray(one.data).tobytes())


def label(one: Label) -> bytes:
    """The record of a label."""
    return _record(LABEL, json.dumps([one.seconds, one.name, one.value]).encode())


def end(facts: Dict[str, Any]) -> bytes:
    """The last record: counts of frames, and of those that were dropped."""
    return _record(END, json.dumps(facts, sort_keys=True).encode())


def records(chunks: Iterable[bytes], name: str) -> Iterator[Tuple[bytes, Any]]:
    """(kind, content) of each record of an opened recording. Raises ``BadInput`` for what is none."""
    held, shape, dtype = bytearray(), (), None
    for chunk in chunks:
        held += chunk
        while len(held) >= _START.size:
            kind, size = _START.unpack_from(held)
            if size > _MOST_BYTES or (kind != HEAD) == (dtype is None):
                raise BadInput(_ANOTHER.format(name))
            if len(held) < _START.size + size:
                break
            data = bytes(held[_START.size : _START.size + size])
            del held[: _START.size + size]
            try:
                if kind == FRAME:
                    seconds, track = _FRAME.unpack_from(data)
                    samples = np.frombuffer(data, dtype, offset=_FRAME.size).reshape(shape)
                    yield kind, Frame(seconds, track, samples)
                    continue
                content = json.loads(data.decode())
                if kind == HEAD:
                    shape, dtype = tuple(content["shape"]), np.dtype(content["dtype"])
                yield kind, Label(*content) if kind == LABEL else content
            except (ValueError, KeyError, TypeError, struct.error):
                raise BadInput(_ANOTHER.format(name)) from None
    if held:
        raise BadInput(_ANOTHER.format(name))


_ANOTHER = "{} holds no recording that this version reads. Open it with the version of the board, or record it again"


def _record(kind: bytes, data: bytes) -> bytes:
    return _START.pack(kind, len(data)) + data
