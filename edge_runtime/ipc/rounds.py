"""What goes to the inside while it runs: the parameters of one training round after the other, as records of one size.

The collector publishes such a record, the outside passes it on, and each of them checks it: a record of another size,
with a wrong checksum or with a number that is not finite or beyond the signed bound is refused. Little-endian: magic
``EVP1``; the run (4 bytes, below 2^31) and the round (4 bytes, from 1); how many devices each round asks and how many
there are (2 bytes each); theta, float32 (d,); CRC-32 of all before it (4 bytes).
"""

import os
import struct
import zlib
from typing import Callable, NamedTuple, Optional

import numpy as np

from edgeveil.edge_runtime.manifest.manifest import Manifest

MOST_RUN = 2**31 - 1  # so that a signed number holds run and round
_HEAD, _END = struct.Struct("<4sIIHH"), struct.Struct("<I")
_MAGIC = b"EVP1"
_SOME, _MOST_READS = 16, 64  # records read in one go, and reads: a flood must not hold up the reader


class RoundRefused(ValueError):
    """These bytes are no round of this bundle. The message says why in a few words."""


class Round(NamedTuple):
    """Round ``number`` of the training ``run``: ``lot`` of ``devices`` devices are asked for a gradient at ``theta``,
    float32 (d,)."""

    run: int
    number: int
    lot: int
    devices: int
    theta: np.ndarray

    @property
    def question(self) -> int:
        """The number that every report of this round has: run and round."""
        return self.run << 32 | self.number

    def asks(self, turn: Optional[int]) -> bool:
        """Whether the device number ``turn``, from 0, is asked: all take turns; None is asked only with all others."""
        if self.lot == self.devices:
            return True
        return turn is not None and (turn - self.lot * (self.number - 1)) % self.devices < self.lot


class RoundFormat(object):
    """Packs and checks the rounds of d parameters, each of at most ``most`` either way. ``size`` is in bytes."""

    def __init__(self, d: int, most: float) -> None:
        self._d, self._most = d, most
        self.size = _HEAD.size + 4 * d + _END.size

    @classmethod
    def of(cls, manifest: Manifest) -> Optional["RoundFormat"]:
        """Of a bundle that reports gradients; None for every other bundle."""
        for stage in manifest.stages:
            if stage.stage == "parameters":
                return cls(stage.shape[0], stage.most)
        return None

    def pack(self, one: Round) -> bytes:
        """The record of a round."""
        theta = np.ascontiguousarray(one.theta, "<f4").tobytes()
        data = _HEAD.pack(_MAGIC, one.run, one.number, one.lot, one.devices) + theta
        return data + _END.pack(zlib.crc32(data))

    def unpack(self, data: bytes) -> Round:
        """The round in these bytes; raises ``RoundRefused``."""
        if len(data) != self.size:
            raise RoundRefused("{} bytes, and {} were expected".format(len(data), self.size))
        (checksum,) = _END.unpack_from(data, len(data) - _END.size)
        if zlib.crc32(data[: -_END.size]) != checksum:
            raise RoundRefused("its checksum is wrong")
        magic, run, number, lot, devices = _HEAD.unpack_from(data)
        if magic != _MAGIC or not 0 < run <= MOST_RUN or not number or not 0 < lot <= devices:
            raise RoundRefused("its head is none of a round")
        theta = np.frombuffer(data, "<f4", self._d, _HEAD.size).astype(np.float32)
        # Not true of what is not a number.
        if not bool((np.abs(theta) <= np.float32(self._most)).all()):
            raise RoundRefused("a parameter is beyond {:g} or not finite".format(self._most))
        return Round(run, number, lot, devices, theta)


def _next_magic(data: bytes) -> int:
    """Where in ``data``, after its first byte, the next record may begin: at its end, where there is no sign of one."""
    at = data.find(_MAGIC, 1)
    begun = [len(data) - k for k in (3, 2, 1) if data.endswith(_MAGIC[:k])]
    return at if at > 0 else (begun + [len(data)])[0]


class RoundWriter(object):
    """The outside's end of the pipe: takes the bytes of one round after the other, and never waits."""

    def __init__(self, handle: int) -> None:
        self.handle, self._left = handle, b""
        os.set_blocking(handle, False)

    def offer(self, data: bytes) -> bool:
        """Whether this round is under way now: not while the one before is, and not to a reader that is gone."""
        if not self.flush():
            return False
        self._left = data
        self.flush()
        return True

    def flush(self) -> bool:
        """Whether nothing is under way any more."""
        try:
            while self._left:
                self._left = self._left[os.write(self.handle, self._left) :]
        except (BlockingIOError, BrokenPipeError):
            return False
        return True


class RoundReader(object):
    """The inside's end of the pipe: rounds of one run, the first that comes, and never an earlier round after a later
    one. All others go to ``refused``, with the reason.

    What is no record is skipped up to the next magic, so that a writer that was cut off does not end the training.
    """

    def __init__(self, handle: int, form: RoundFormat, refused: Callable[[str], None]) -> None:
        self.handle, self._form, self._refused, self._left = handle, form, refused, b""
        self._last: Optional[Round] = None
        self.ended = False
        os.set_blocking(handle, False)

    def newest(self) -> Optional[Round]:
        """The latest round that came since the last call, or None; never blocks. A later one makes others pointless."""
        found = None
        for _ in range(_MOST_READS):
            try:
                data = os.read(self.handle, _SOME * self._form.size)
            except BlockingIOError:
                break
            self.ended = not data
            self._left += data
            found = self._parse() or found
            if self.ended:
                break
        return found

    def _parse(self) -> Optional[Round]:
        found = None
        while len(self._left) >= self._form.size:
            data = self._left[: self._form.size]
            skip = len(data)
            try:
                found = self._last = self._accepted(data)
            except RoundRefused as error:
                self._refused(str(error))
                skip = _next_magic(data)
            self._left = self._left[skip:]
        return found

    def _accepted(self, data: bytes) -> Round:
        one = self._form.unpack(data)
        if self._last is not None and one.run != self._last.run:
            raise RoundRefused("it is of another run")
        if self._last is not None and one.number < self._last.number:
            raise RoundRefused("it is of an earlier round")
        return one
