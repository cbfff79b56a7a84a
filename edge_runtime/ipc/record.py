"""What the inside sends of one period: whole numbers, in the order of the manifest's ``count``, and nothing else.

In the pipe such a record is as long as every other: a head (magic ``EVC1``, state 0 for a period that was watched whole
and 1 for a part of one, 3 bytes of 0, the period's number, CRC-32 of the rest), then little-endian int32, then zeros.
"""

import collections
import os
import struct
import zlib
from typing import Callable, Iterable, Iterator, List, NamedTuple, Sequence, Union

import numpy as np

from edgeveil.edge_runtime.errors import DeviceFailed, PrivacyStop
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.manifest.spending import repeats_paid

MAGIC = b"EVC1"
HEAD = struct.Struct("<4sB3xqI")
MOST = 2**31 - 1


class Counted(NamedTuple):
    """One period: its number, whether it was watched whole, and the ``values``."""

    period: int
    whole: bool
    values: Sequence[int]


def pack(counted: Counted, size: int) -> bytes:
    """A record of ``size`` bytes. Raises ``PrivacyStop`` for anything but a ``Counted`` that fits."""
    if type(counted) is not Counted or HEAD.size + 4 * len(counted.values) > size:
        raise PrivacyStop("expected the counts of a period to send; got a {}".format(type(counted).__name__))
    # Noise has no end; what no picture can show is cut, whatever was counted.
    values = [max(-MOST, min(MOST, int(value))) for value in counted.values]
    body = struct.pack("<{}i".format(len(values)), *values).ljust(size - HEAD.size, b"\0")
    return HEAD.pack(MAGIC, int(not counted.whole), counted.period, zlib.crc32(body)) + body


def unpack(data: bytes, count: int) -> Counted:
    """The record of these bytes, of ``count`` values. Raises ``ValueError`` for anything else."""
    magic, part, period, checksum = HEAD.unpack_from(data)
    body = data[HEAD.size :]
    if magic != MAGIC or part > 1 or zlib.crc32(body) != checksum or body[4 * count :].strip(b"\0"):
        raise ValueError("no counts of a period")
    values: List[int] = list(struct.unpack_from("<{}i".format(count), body))
    return Counted(period, not part, values)


# What the inside sends to the outside: perturbed frames as records of one size, and nothing else.
#
# A record is a head and the outputs' bytes one after the other, in the manifest's order. Little-endian head: magic
# ``EVR1``; state (1 byte: 0 released, 1 flat), slot (2 bytes); the number of its set, or of the frame of a file (8
# bytes, signed); CRC-32 of the outputs (4 bytes). All records of a bundle have the same length, those of counts
# (``ipc.counted``) too, so that the length reveals nothing and a reader always knows where the next one begins. Where
# draws are charged and not releases, the name of the frame's draws (8 bytes, ``pipeline.track_memory``) comes before
# the outputs. The outside charges by it, and it goes no further.


RELEASED, FLAT = 0, 1
_HEAD = struct.Struct("<4sBxHqI")
_MAGIC = b"EVR1"
_AT_ONCE = 1 << 18  # bytes read in one go

_DRAWN = struct.Struct("<Q")  # the name of draws


class Record(NamedTuple):
    """One record: ``number``, ``slot`` and ``state`` of its head, and its frame."""

    number: int
    slot: int
    state: int
    frame: PerturbedFrame


class RecordBroken(DeviceFailed):
    """The pipe held something else than a record: nothing after it can be trusted either."""


class Layout(object):
    """The place of each output of a manifest in a record, and of ``counts`` whole numbers in a record of those.

    ``size`` is the length of every record in bytes. ``draws``: each record has the name of the draws that it repeats.
    """

    def __init__(self, outputs: List[Output], counts: int = 0, *, draws: bool = False) -> None:
        self.counts = counts
        self.columns = []
        self.draws = draws
        offset = _HEAD.size + draws * _DRAWN.size
        for output in outputs:
            dtype, shape = np.dtype(output.dtype), output.shape
            size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
            self.columns.append((output.name, dtype, shape, offset, size))
            offset += size
        self.size = max(offset, HEAD.size + 4 * counts)

    @classmethod
    def from_manifest(cls, manifest: Manifest) -> "Layout":
        """The layout of all that a bundle sends."""
        counts = 0 if manifest.counts is None else len(manifest.counts.names)
        return cls(manifest.outputs, counts, draws=repeats_paid(manifest))

    def pack(self, frame: PerturbedFrame, number: int, slot: int = 0, state: int = RELEASED) -> bytes:
        """One record of ``frame``. Raises ``PrivacyStop`` for anything but a ``PerturbedFrame`` of this layout."""
        if type(frame) is not PerturbedFrame:
            raise PrivacyStop("expected a PerturbedFrame to make a record; got a {}".format(type(frame).__name__))
        parts = [_DRAWN.pack(frame.drawn)] if self.draws else []
        for name, dtype, shape, _, _ in self.columns:
            value = frame.outputs[name]
            if value.dtype != dtype or value.shape != shape:
                raise PrivacyStop("a frame differs from its manifest; no more frames are emitted")
            parts.append(value.tobytes())
        body = b"".join(parts)
        body = body.ljust(self.size - _HEAD.size, b"\0")
        return _HEAD.pack(_MAGIC, state, slot, number, zlib.crc32(body)) + body

    def unpack(self, data: bytes) -> Union[Record, Counted]:
        """The record of ``size`` bytes; raises ``RecordBroken``."""
        if self.counts and data[:4] == MAGIC:
            try:
                return unpack(data, self.counts)
            except ValueError:
                pass
        magic, state, slot, number, checksum = _HEAD.unpack_from(data)
        if magic != _MAGIC or state not in (RELEASED, FLAT) or zlib.crc32(memoryview(data)[_HEAD.size :]) != checksum:
            raise RecordBroken("the inside sent something else than a record; the link is closed and opened again")
        outputs = {
            name: np.frombuffer(data, dtype, count=size // dtype.itemsize, offset=offset).reshape(shape)
            for name, dtype, shape, offset, size in self.columns
        }
        drawn = _DRAWN.unpack_from(data, _HEAD.size)[0] if self.draws else 0
        return Record(number, slot, state, PerturbedFrame(number, outputs, _PIPELINE, slot=slot, drawn=drawn))


class RecordReader(object):
    """Reads records without blocking. ``ended`` is true once the writer has closed the pipe."""

    def __init__(self, handle: int, layout: Layout) -> None:
        self._handle, self._layout = handle, layout
        # Read into one place: a new one of this size for each read would cost more than the read.
        self._space = bytearray(max(_AT_ONCE, 2 * layout.size))
        self._held = 0  # bytes of it
        self.ended = False
        os.set_blocking(handle, False)

    def records(self, most: int = 64) -> Iterator[Union[Record, Counted]]:
        """The records that have come, up to about ``most``; raises ``RecordBroken``."""
        size, space = self._layout.size, memoryview(self._space)
        while most > 0 and not self.ended:
            try:
                count = os.readv(self._handle, [space[self._held :]])
            except BlockingIOError:
                return
            # A record cut short by the end of its writer is discarded.
            self.ended = not count
            drained = count < len(space) - self._held
            self._held += count
            whole = self._held // size
            arrived = bytes(space[: whole * size])
            left = self._held - whole * size
            space[:left], self._held = bytes(space[whole * size : self._held]), left
            for offset in range(0, whole * size, size):
                yield self._layout.unpack(arrived[offset : offset + size] if whole > 1 else arrived)
            if whole and drained:
                return  # to read once more would only say that there is no more
            most -= whole


# Which draws of a stream were paid for: to release one again costs nothing.
#
# A draw is known by its name (``PerturbedFrame.drawn``); 0 names none, and is always paid for. Names are forgotten, the
# oldest first: such a draw is then paid for again.


MOST_DRAWS = 4096  # as many as tracks are remembered


class PaidDraws(object):
    """The names of the draws that were paid for last."""

    def __init__(self, most: int = MOST_DRAWS) -> None:
        self._most = most
        self._names: "collections.OrderedDict[int, None]" = collections.OrderedDict()

    def __contains__(self, name: int) -> bool:
        return name in self._names

    def pay(self, names: Iterable[int], take: Callable[[int], bool]) -> bool:
        """Whether releases of these may leave together: ``take`` says whether so many that are new are paid for."""
        names = list(names)
        unpaid = self.unpaid(names)
        if unpaid and not take(unpaid):
            return False
        self.add(names)
        return True

    def unpaid(self, names: Iterable[int]) -> int:
        """How many releases these are that must be paid for: each 0, and each other name once."""
        names = list(names)
        return names.count(0) + len({name for name in names if name and name not in self._names})

    def add(self, names: Iterable[int]) -> None:
        """Count these as paid for, from now on."""
        for name in names:
            if name:
                self._names[name] = None
                self._names.move_to_end(name)
        while len(self._names) > self._most:
            self._names.popitem(last=False)
