"""Records in files of about a megabyte, appended and read back; a file goes when none of its records is needed.

Each record is ``EVS1``, its size, the time it came (seconds since 1970), a CRC-32 of all of it, and its bytes. A record
that a power cut left half-written at the end of a file fails these checks and is ignored.
"""

import fcntl
import os
import re
import struct
import zlib
from typing import Any, BinaryIO, Dict, Iterator, NamedTuple, Optional

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.storage.atomic import writing

_HEAD = struct.Struct(">4sIdI")  # magic, size, time, CRC-32 of size, time and record
_NAME = re.compile(r"([0-9]{12})\.spool")
SEGMENT_BYTES = 2**20

Stored = NamedTuple("Stored", [("segment", int), ("offset", int), ("size", int)])
Found = NamedTuple("Found", [("stored", Stored), ("wall_s", float), ("data", bytes)])


def _checksum(size: int, wall_s: float, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(struct.pack(">Id", size, wall_s))) & 0xFFFFFFFF


class Segments(object):
    """The files of one spool. ``folder`` is made if needed, and locked: one spool, one process."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        with writing(folder):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self._lock = open(os.path.join(folder, "lock"), "w")  # noqa: SIM115 - held while the spool is
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise BadInput(
                "the spool {} is in use by another sink or process: give each its own".format(folder)
            ) from None
        self._old = sorted(int(m.group(1)) for m in map(_NAME.fullmatch, os.listdir(folder)) if m)
        self._needed: Dict[int, int] = {}
        self._next = self._old[-1] + 1 if self._old else 0
        self._writes: Any = None
        self._reads: Optional[BinaryIO] = None
        self._reading = -1

    def found(self) -> Iterator[Found]:
        """Records of earlier runs, oldest first. A file is read up to the first record that is not whole."""
        for segment in self._old:
            self._needed[segment] = 0
            found = list(self._records(segment))
            self._needed[segment] = len(found)
            for each in found:
                yield each
            if not found:
                self._remove(segment)

    def append(self, data: bytes, wall_s: float) -> Stored:
        """Write one record at the end, or nothing of it and raise ``OSError``."""
        if self._writes is None:
            # Unbuffered: written records outlive this process.
            self._writes = open(self._path(self._next), "xb", buffering=0)  # noqa: SIM115
            self._needed[self._next] = 0
            self._next += 1
        segment, offset = self._next - 1, self._writes.tell()
        record = _HEAD.pack(b"EVS1", len(data), wall_s, _checksum(len(data), wall_s, data)) + data
        try:
            written = self._writes.write(record)
            if written != len(record):
                raise OSError(28, "no space left on device")
        except OSError:
            self._writes.seek(offset)
            self._writes.truncate()
            raise
        self._needed[segment] += 1
        if self._writes.tell() >= SEGMENT_BYTES:
            self._finish()
        return Stored(segment, offset + _HEAD.size, len(data))

    def read(self, stored: Stored) -> Optional[bytes]:
        """The record, or None where it can no longer be read."""
        try:
            if self._reading != stored.segment or self._reads is None:
                self._close_reads()
                self._reads = open(self._path(stored.segment), "rb")  # noqa: SIM115
                self._reading = stored.segment
            self._reads.seek(stored.offset)
            data = self._reads.read(stored.size)
        except OSError:
            return None
        return data if len(data) == stored.size else None

    def forget(self, stored: Stored) -> None:
        """Forget this record; a file is removed with its last one."""
        self._needed[stored.segment] -= 1
        writing_here = self._writes is not None and stored.segment == self._next - 1
        if self._needed[stored.segment] == 0 and not writing_here:
            self._remove(stored.segment)

    def close(self) -> None:
        """Sync the files and unlock the folder."""
        self._finish()
        self._close_reads()
        self._lock.close()

    def discard(self) -> None:
        """Remove every file."""
        self._finish()
        self._close_reads()
        for segment in list(self._needed):
            self._remove(segment)

    def _records(self, segment: int) -> Iterator[Found]:
        try:
            with open(self._path(segment), "rb") as file:
                whole = file.read()
        except OSError:
            return
        at = 0
        while at + _HEAD.size <= len(whole):
            magic, size, wall_s, checksum = _HEAD.unpack_from(whole, at)
            at += _HEAD.size
            data = whole[at : at + size]
            if magic != b"EVS1" or len(data) != size or checksum != _checksum(size, wall_s, data):
                return
            yield Found(Stored(segment, at, size), wall_s, data)
            at += size

    def _finish(self) -> None:
        if self._writes is None:
            return
        with self._writes:
            try:
                os.fsync(self._writes.fileno())
            except OSError:
                pass
        self._writes = None
        if self._needed[self._next - 1] == 0:
            self._remove(self._next - 1)

    def _close_reads(self) -> None:
        if self._reads is not None:
            self._reads.close()
        self._reads, self._reading = None, -1

    def _remove(self, segment: int) -> None:
        if self._reading == segment:
            self._close_reads()
        del self._needed[segment]
        try:
            os.unlink(self._path(segment))
        except OSError:
            pass

    def _path(self, segment: int) -> str:
        return os.path.join(self.folder, "{:012d}.spool".format(segment))
