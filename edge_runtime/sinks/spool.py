"""Perturbed records that wait for a network: bounded, with a time to live, in memory or on a disk.

The loop puts records in and never waits. A sender takes the oldest, reports its arrival, or gives back the records in
flight when its connection broke. Records that do not fit or are too old are dropped, oldest first, and counted.

On a disk (``spool_disk``) a record is only written when it has waited for ``write_after_s``, or when the spool is
closed: while the network works, a memory card is not worn. A power cut or ``kill -9`` loses these seconds.
"""

import collections
import contextlib
import fcntl
import os
import re
import struct
import threading
import time
import zlib
from typing import Any, BinaryIO, Callable, Deque, Dict, Iterator, List, NamedTuple, Optional

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.machine import CLOCKS_FROM_S
from edgeveil.edge_runtime.util.atomic import writing
from edgeveil.edge_runtime.util.filesystem import open_strict, read_strict

# Records in files of about a megabyte, appended and read back; a file goes when none of its records is needed.
#
# Each record is ``EVS1``, its size, the time it came (seconds since 1970), a CRC-32 of all of it, and its bytes. A
# record that a power cut left half-written at the end of a file fails these checks and is ignored.


_HEAD = struct.Struct(">4sIdI")  # magic, size, time, CRC-32 of size, time and record
_NAME = re.compile(r"([0-9]{12})\.spool")
SEGMENT_BYTES, MOST_SEGMENT_BYTES = 2**20, 2**28  # the last record of a file may be a large one

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
            self._lock = os.open(
                os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
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
            records = list(self._records(segment))
            self._needed[segment] = len(records)
            for each in records:
                yield each
            if not records:
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
                self._reads = os.fdopen(open_strict(self._path(stored.segment)), "rb")
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
        os.close(self._lock)

    def discard(self) -> None:
        """Remove every file."""
        self._finish()
        self._close_reads()
        for segment in list(self._needed):
            self._remove(segment)

    def _records(self, segment: int) -> Iterator[Found]:
        try:
            whole = read_strict(self._path(segment), MOST_SEGMENT_BYTES) or b""
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
        with self._writes, contextlib.suppress(OSError):
            os.fsync(self._writes.fileno())
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
        with contextlib.suppress(OSError):
            os.unlink(self._path(segment))

    def _path(self, segment: int) -> str:
        return os.path.join(self.folder, "{:012d}.spool".format(segment))


class Entry(object):
    """One record and where it is: in memory (``data``), on the disk (``stored``), or nowhere any more (``gone``)."""

    __slots__ = ("born_s", "data", "gone", "number", "size", "stored")

    def __init__(self, number: int, data: Optional[bytes], stored: Optional[Stored], size: int, born_s: float) -> None:
        self.number, self.data, self.stored, self.size, self.born_s = number, data, stored, size, born_s
        self.gone = False

    def record(self) -> bytes:
        """The bytes, of an entry that was taken."""
        return self.data or b""


class Spool(object):
    """Records in, oldest first out. One thread puts, one takes.

    ``most_bytes`` bounds all that waits, ``memory_bytes`` the part that is in memory; ``ttl_s`` is how long a record is
    worth sending. ``folder`` is where a spool on the disk lives, for it alone; None is memory. ``accept`` is asked of
    each record found there from an earlier run. ``stream`` are eight bytes drawn for this run: with ``next_number``
    they name a record.

    Raises ``BadInput`` where the folder is in use, ``WriteFailed`` where it cannot be made.
    """

    def __init__(
        self,
        *,
        most_bytes: int,
        ttl_s: float,
        memory_bytes: int = 2**24,
        folder: Optional[str] = None,
        accept: Callable[[bytes], bool] = lambda _: True,
        say: Callable[[str], None] = lambda _: None,
        write_after_s: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._most_bytes, self._ttl_s, self._clock, self._wall = most_bytes, ttl_s, clock, wall
        self._memory_bytes = min(memory_bytes, most_bytes) if folder else most_bytes
        self._write_after_s, self._write_again_s, self._say = write_after_s, 0.0, say
        self._ready = threading.Condition()
        self._waiting: Deque[Entry] = collections.deque()
        self._flying: Dict[int, Entry] = collections.OrderedDict()
        self._unwritten: Deque[Entry] = collections.deque()
        self._bytes = self._in_memory = 0
        self._counts = dict.fromkeys(("put", "done", "full", "expired", "lost", "unlike", "restored", "disk_errors"), 0)
        self.stream, self.next_number, self._number = os.urandom(8), 0, 0
        self._closed = self._woken = False
        self._disk = Segments(folder) if folder else None
        if self._disk:
            self._restore(self._disk, accept)

    def put(self, record: bytes) -> None:
        """Take a record; returns at once."""
        with self._ready:
            self.next_number += 1
            self._add(Entry(self._number, record, None, len(record), self._clock()))
            self._counts["put"] += 1
            self._expire()
            self._shrink()
            self._write_old(self._clock() - self._write_after_s)
            self._ready.notify_all()

    def take(self, timeout_s: float = 0.0) -> Optional[Entry]:
        """The oldest record that waits, its bytes by ``record()``; None after that time, or ``wake``.

        It is in flight until ``done``, ``refused`` or ``give_back``.
        """
        with self._ready:
            self._expire()
            if not self._waiting and not self._woken and timeout_s > 0:
                self._ready.wait(timeout_s)
            self._woken = False
            while self._waiting and not self._closed:
                entry = self._waiting.popleft()
                if entry.gone:
                    continue
                self._flying[entry.number] = entry
                if entry.data is not None:
                    return entry
                entry.data = self._disk.read(entry.stored) if self._disk and entry.stored else None
                if entry.data is not None:
                    self._in_memory += entry.size
                    return entry
                self._remove_entry(entry, "lost")
            return None

    def done(self, entry: Entry) -> None:
        """It has arrived."""
        with self._ready:
            if not entry.gone:
                self._remove_entry(entry, "done")
                self._ready.notify_all()

    def refused(self, entry: Entry) -> None:
        """It will never be accepted: count it as lost."""
        with self._ready:
            if not entry.gone:
                self._remove_entry(entry, "lost")

    def give_back(self) -> None:
        """Records in flight wait again, in their old order, before all others."""
        with self._ready:
            entries, self._flying = list(self._flying.values()), collections.OrderedDict()
            for entry in sorted(entries, key=lambda e: e.number, reverse=True):
                if entry.stored is not None:
                    entry.data, self._in_memory = None, self._in_memory - entry.size
                self._waiting.appendleft(entry)
            self._expire()
            self._shrink()

    def wake(self) -> None:
        """Make ``take`` return: its caller has something else to do."""
        with self._ready:
            self._woken = True
            self._ready.notify_all()

    def wait_empty(self, timeout_s: float) -> bool:
        """Whether all has arrived, or does within that time."""
        end = self._clock() + timeout_s
        with self._ready:
            while self._waiting or self._flying:
                left = end - self._clock()
                if left <= 0:
                    return False
                self._ready.wait(min(left, 0.1))
            return True

    def age_s(self, entry: Entry) -> float:
        """How long this record has waited, in seconds."""
        return self._clock() - entry.born_s

    def counts(self) -> Dict[str, int]:
        """``put``, ``restored`` from an earlier run; of these ``done``, dropped as ``full``, ``expired``, ``lost``.

        ``waiting`` is the rest. ``unlike`` counts what an earlier bundle left, ``disk_errors`` failed writes.
        """
        with self._ready:
            return dict(self._counts, waiting=len(self._left()), waiting_bytes=self._bytes)

    def count(self, what: str) -> int:
        """One of the ``counts``; this one does not look through what waits."""
        return self._counts[what]

    def close(self) -> None:
        """On a disk: write what still waits, for the next run. In memory: count it as lost."""
        with self._ready:
            self._closed = True
            if self._disk:
                self._write_old(float("inf"), again=True)
                self._disk.close()
            for entry in self._left():
                if not entry.stored:
                    self._remove_entry(entry, "lost")

    def discard(self) -> None:
        """Forget everything, on the disk too; ``take`` returns nothing more."""
        with self._ready:
            self._closed = True
            for entry in self._left():
                self._remove_entry(entry, "lost")
            self._waiting.clear()
            self._unwritten.clear()
            if self._disk:
                self._disk.discard()
                self._disk.close()

    def _left(self) -> List[Entry]:
        return list(self._flying.values()) + [entry for entry in self._waiting if not entry.gone]

    def _restore(self, disk: Segments, accept: Callable[[bytes], bool]) -> None:
        now, wall = self._clock(), self._wall()
        for record in disk.found():
            if not accept(record.data):
                self._counts["unlike"] += 1
                disk.forget(record.stored)
                continue
            # A board without a clock battery may start in 1970, now or when the record came: then it counts as new.
            age_s = max(0.0, wall - record.wall_s) if record.wall_s >= CLOCKS_FROM_S else 0.0
            self._add(Entry(self._number, None, record.stored, len(record.data), now - age_s))
            self._counts["restored"] += 1
        self._expire()
        self._shrink()

    def _add(self, entry: Entry) -> None:
        self._number += 1
        self._waiting.append(entry)
        self._bytes += entry.size
        if entry.data is not None:
            self._in_memory += entry.size
            if self._disk:
                self._unwritten.append(entry)

    def _remove_entry(self, entry: Entry, why: str) -> None:
        entry.gone = True
        self._flying.pop(entry.number, None)
        self._bytes -= entry.size
        if entry.data is not None:
            entry.data, self._in_memory = None, self._in_memory - entry.size
        if entry.stored and self._disk:
            self._disk.forget(entry.stored)
        self._counts[why] += 1

    def _expire(self) -> None:
        oldest_s = self._clock() - self._ttl_s
        while self._waiting and (self._waiting[0].gone or self._waiting[0].born_s < oldest_s):
            entry = self._waiting.popleft()
            if not entry.gone:
                self._remove_entry(entry, "expired")

    def _shrink(self) -> None:
        while self._bytes > self._most_bytes and self._waiting:
            entry = self._waiting.popleft()
            if not entry.gone:
                self._remove_entry(entry, "full")
        if self._in_memory <= self._memory_bytes:
            return
        # There is a disk, or the bound above would have held. Write the rest there; drop what cannot be written.
        self._write_old(float("inf"))
        for entry in self._waiting:
            if self._in_memory <= self._memory_bytes:
                break
            if entry.data is not None:
                self._remove_entry(entry, "full")

    def _write_old(self, born_before_s: float, again: bool = False) -> None:
        if not self._disk or (self._clock() < self._write_again_s and not again):
            return
        behind_s = self._wall() - self._clock()
        while self._unwritten and (self._unwritten[0].gone or self._unwritten[0].born_s <= born_before_s):
            entry = self._unwritten.popleft()
            if entry.gone or entry.data is None:
                continue
            try:
                entry.stored = self._disk.append(entry.data, behind_s + entry.born_s)
            except OSError as error:
                # A part that was written is cut off again. The record stays in memory; the disk is tried again later.
                self._unwritten.appendleft(entry)
                self._counts["disk_errors"] += 1
                self._write_again_s = self._clock() + 5.0
                self._say(
                    "the spool in {} cannot be written to ({}): records wait in memory, the oldest are dropped when it "
                    "is full. Free some space there.".format(self._disk.folder, str(error.strerror).lower())
                )
                return
            if entry.number not in self._flying:
                entry.data, self._in_memory = None, self._in_memory - entry.size
