"""What the inside sends of one period: whole numbers, in the order of the manifest's ``count``, and nothing else.

In the pipe such a record is as long as every other: a head (magic ``EVC1``, state 0 for a period that was watched whole
and 1 for a part of one, 3 bytes of 0, the period's number, CRC-32 of the rest), then little-endian int32, then zeros.
"""

import struct
import zlib
from typing import List, NamedTuple, Sequence

from edgeveil.edge_runtime.errors import PrivacyStop

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
