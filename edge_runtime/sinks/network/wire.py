"""The network format: one record of fixed size a frame. ``docs/reference/sinks.md`` describes it for receivers.

A record holds its tick, its slot in that tick and the outputs of the manifest. Its size depends on the bundle only, so
that an observer of encrypted traffic learns nothing from it.
"""

import hashlib
import json
import struct
from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Manifest, Output

MAGIC = b"EVF1"
NO_TICK = -(2**63)
# magic, format, stream, number in the stream, tick, tick_ns, slot, 0, bytes that follow
_HEADER = struct.Struct(">4s4s8sQqqHHI")
HEADER_BYTES = _HEADER.size

Record = NamedTuple(
    "Record",
    [
        ("id", str),  # the stream and the number in it; the same when a record is sent twice
        ("index", int),
        ("tick_ns", Optional[int]),
        ("slot", int),
        ("outputs", Dict[str, Any]),
    ],
)


def json_bytes(document: Dict[str, Any]) -> bytes:
    """A JSON document with sorted keys."""
    return json.dumps(document, sort_keys=True).encode("utf-8")


class Format(object):
    """Encodes and decodes the frames of one bundle.

    ``outputs`` are the manifest's, ``manifest`` is the whole of it, or None. Receivers get ``document`` before the
    first record; ``key``, four bytes in every record, identifies it.
    """

    def __init__(self, outputs: List[Output], manifest: Optional[Manifest] = None) -> None:
        bundle: Optional[Dict[str, Any]] = None
        if manifest:
            bundle = {name: getattr(manifest, name) for name in ("name", "created", "security_version")}
        self.outputs: List[Dict[str, Any]] = [
            {"name": o.name, "kind": o.kind, "shape": list(o.shape), "dtype": o.dtype} for o in outputs
        ]
        document = {"schema": 1, "kind": "edgeveil-format", "record": "EVF1", "outputs": self.outputs, "bundle": bundle}
        self.key = hashlib.sha256(json_bytes(document)).digest()[:4]
        self.document: Dict[str, Any] = dict(document, key=self.key.hex())
        self._dtypes = [np.dtype(o.dtype).newbyteorder("<") for o in outputs]
        counts = [int(np.prod(o.shape, dtype=np.int64)) for o in outputs]
        self._sizes = [dtype.itemsize * count for dtype, count in zip(self._dtypes, counts)]
        self.payload_bytes = sum(self._sizes)

    def encode(self, frame: Any, stream: bytes, number: int) -> bytes:
        """The record of a ``PerturbedFrame``, number ``number`` of ``stream`` (eight bytes)."""
        tick_ns = NO_TICK if frame.tick_ns is None else frame.tick_ns
        parts = [_HEADER.pack(MAGIC, self.key, stream, number, frame.index, tick_ns, frame.slot, 0, self.payload_bytes)]
        for output, dtype in zip(self.outputs, self._dtypes):
            parts.append(np.ascontiguousarray(frame.outputs[output["name"]]).astype(dtype, copy=False).tobytes())
        return b"".join(parts)

    def mine(self, record: bytes) -> bool:
        """Whether these bytes are a record of this format."""
        return len(record) == HEADER_BYTES + self.payload_bytes and record[:8] == MAGIC + self.key

    def decode(self, record: bytes) -> Record:
        """The ``Record`` of these bytes. Raises ``BadInput`` if they are none of this format."""
        if not self.mine(record):
            raise BadInput(
                "expected a record of {} bytes of the format {}; got {} bytes".format(
                    HEADER_BYTES + self.payload_bytes, self.key.hex(), len(record)
                )
            )
        _, _, stream, number, index, tick_ns, slot, _, _ = _HEADER.unpack_from(record)
        outputs, at = {}, HEADER_BYTES
        for output, dtype, size in zip(self.outputs, self._dtypes, self._sizes):
            outputs[output["name"]] = np.frombuffer(record[at : at + size], dtype).reshape(output["shape"])
            at += size
        name = "{}-{}".format(stream.hex(), number)
        return Record(name, index, None if tick_ns == NO_TICK else tick_ns, slot, outputs)
