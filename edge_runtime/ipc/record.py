"""What crosses from the inside to the outside: perturbed frames as records of one size, and nothing else.

A record is a head and the outputs' bytes one after the other, in the manifest's order. Little-endian head: magic
``EVR1``; state (1 byte: 0 released, 1 flat), slot (2 bytes); the number of the set it belongs to, or of the frame of a
file (8 bytes, signed); CRC-32 of the outputs (4 bytes). All of a bundle's records have the same length, so that
the length says nothing, and a reader always knows where the next one begins.
"""

import os
import struct
import zlib
from typing import Iterator, List, NamedTuple

import numpy as np

from edgeveil.edge_runtime.errors import DeviceFailed, PrivacyStop
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.manifest.manifest import Output

RELEASED, FLAT = 0, 1
_HEAD = struct.Struct("<4sBxHqI")
_MAGIC = b"EVR1"
_AT_ONCE = 1 << 18  # bytes read in one go

Record = NamedTuple("Record", [("number", int), ("slot", int), ("state", int), ("frame", PerturbedFrame)])


class RecordBroken(DeviceFailed):
    """What came through the pipe is no record: nothing after it can be trusted either."""


class Layout(object):
    """Where each output of a manifest lies in a record. ``size`` is the length of every record in bytes."""

    def __init__(self, outputs: List[Output]) -> None:
        self.columns = []
        offset = _HEAD.size
        for output in outputs:
            dtype, shape = np.dtype(output.dtype), output.shape
            size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
            self.columns.append((output.name, dtype, shape, offset, size))
            offset += size
        self.size = offset

    def pack(self, frame: PerturbedFrame, number: int, slot: int = 0, state: int = RELEASED) -> bytes:
        """One record of ``frame``. Raises ``PrivacyStop`` for anything but a ``PerturbedFrame`` of this layout."""
        if type(frame) is not PerturbedFrame:
            raise PrivacyStop("a record is made of a perturbed frame alone; got a {}".format(type(frame).__name__))
        parts = []
        for name, dtype, shape, _, _ in self.columns:
            value = frame.outputs[name]
            if value.dtype != dtype or value.shape != shape:
                raise PrivacyStop("a frame is not what its manifest says; nothing more leaves")
            parts.append(value.tobytes())
        body = b"".join(parts)
        return _HEAD.pack(_MAGIC, state, slot, number, zlib.crc32(body)) + body

    def unpack(self, data: bytes) -> Record:
        """The record of ``size`` bytes; raises ``RecordBroken``."""
        magic, state, slot, number, checksum = _HEAD.unpack_from(data)
        if magic != _MAGIC or state not in (RELEASED, FLAT) or zlib.crc32(data[_HEAD.size :]) != checksum:
            raise RecordBroken("what came from the inside is no record; the link is closed and opened again")
        outputs = {
            name: np.frombuffer(data, dtype, count=size // dtype.itemsize, offset=offset).reshape(shape)
            for name, dtype, shape, offset, size in self.columns
        }
        return Record(number, slot, state, PerturbedFrame(number, outputs, _PIPELINE, slot=slot))


class RecordReader(object):
    """Records from a file descriptor that does not block. ``ended`` once the writer has closed it."""

    def __init__(self, handle: int, layout: Layout) -> None:
        self._handle, self._layout, self._left = handle, layout, b""
        self.ended = False
        os.set_blocking(handle, False)

    def records(self, most: int = 64) -> Iterator[Record]:
        """The records that are there now, up to about ``most`` of them; raises ``RecordBroken``."""
        size = self._layout.size
        while most > 0 and not self.ended:
            try:
                data = os.read(self._handle, max(_AT_ONCE, size))
            except BlockingIOError:
                return
            # A record cut short by the end of its writer is discarded.
            self.ended = not data
            self._left += data
            whole = len(self._left) // size
            for offset in range(whole):
                yield self._layout.unpack(self._left[offset * size : (offset + 1) * size])
            self._left = self._left[whole * size :]
            most -= whole
