"""Whole messages over a line that flips, drops and inserts bytes: small frames, CRC-32, selective resend.

Both ends of a serial console run this file; the board's copy is typed into its shell, so it is small and stands alone.

A frame is ``kind, message number, block number, number of blocks, payload``, all of it with a CRC-32 behind, COBS-coded
and between zero bytes: anything in between, such as a kernel message or half a frame, damages at most the frames it
touches. ``B`` carries a block, ``A`` acknowledges blocks of a message: all before a number, and a bitmap of those after
it. A message arrives completely or not at all; the last one received is acknowledged again when it is repeated.
"""

import os
import struct
import time
import zlib
from typing import Any, Callable, Container, Dict, List, Optional, Tuple

BLOCK = 192  # payload bytes: at one bad byte in 1,500 six frames of seven still arrive
WINDOW = 48  # blocks under way
HEAD = struct.Struct(">cHII")
QUIET_S = 0.12  # after this long without a byte, acknowledge what has come
LIMIT = 4 * 2**20  # of one message


class LineBroken(Exception):
    """The other end has been silent for too long."""


def cobs(data: bytes) -> bytes:
    """``data`` without zero bytes, a little longer."""
    out = bytearray()
    for part in data.split(b"\0"):
        while len(part) >= 254:
            out += b"\xff" + part[:254]
            part = part[254:]
        out += bytes([len(part) + 1]) + part
    return bytes(out)


def uncobs(data: bytes) -> Optional[bytes]:
    """The input of ``cobs``, or None if ``data`` is not an output of it."""
    out, at = bytearray(), 0
    while at < len(data):
        size = data[at]
        if at + size > len(data):
            return None
        out += data[at + 1 : at + size]
        at += size
        if size < 255 and at < len(data):
            out.append(0)
    return bytes(out)


def frame(kind: bytes, number: int, block: int, blocks: int, payload: bytes = b"") -> bytes:
    """The bytes of one frame, its zero bytes included."""
    body = HEAD.pack(kind, number, block, blocks) + payload
    return b"\0" + cobs(body + struct.pack(">I", zlib.crc32(body))) + b"\0"


class Link(object):
    """One end. ``read(seconds)`` returns what has come by then, maybe nothing; ``write(data)`` sends all of it.

    ``hang_up``, where it comes outside a frame, ends it as silence does.
    """

    def __init__(
        self,
        read: Callable[[float], bytes],
        write: Callable[[bytes], Any],
        clock: Callable[[], float] = time.time,
        hang_up: Optional[bytes] = None,
    ) -> None:
        self.hang_up = hang_up
        self.read, self.write, self.clock = read, write, clock
        self.rest = b""
        self.number = struct.unpack(">H", os.urandom(2))[0]  # no message of an earlier connection has the same
        self.done: Optional[Tuple[int, int]] = None  # (number, blocks) of the last message received
        self.sent = self.resent = 0  # blocks

    def send(
        self, message: bytes, patience_s: float = 20.0, progress: Optional[Callable[[int, int], None]] = None
    ) -> None:
        """Send one message; returns when all of it has come. Raises ``LineBroken`` after ``patience_s`` of silence."""
        self.number = (self.number + 1) % 65536
        blocks = [message[at : at + BLOCK] for at in range(0, len(message), BLOCK)] or [b""]
        waiting = dict.fromkeys(range(len(blocks)), (0, 0.0))  # block -> its last turn, and when that was
        turn = newest = 0
        heard, round_s = self.clock(), 1.0
        while waiting:
            now, first, went = self.clock(), min(waiting), False
            for block in range(first, min(first + WINDOW, len(blocks))):
                # A line keeps the order: what went before something that has come, and has not come, is lost.
                if block in waiting and (waiting[block][0] < newest or now - waiting[block][1] > round_s):
                    self.sent += 1
                    self.resent += waiting[block][0] > 0
                    self.write(frame(b"B", self.number, block, len(blocks), blocks[block]))
                    turn, went = turn + 1, True
                    waiting[block] = (turn, self.clock())
                    break
            # As long as there is something to send, only what has come already is looked at.
            for kind, number, base, bitmap in self.frames(0 if went else 0.02):
                if kind != b"A" or number != self.number:
                    continue
                heard = self.clock()
                came = [b for b in waiting if b < base or (0 <= b - base < 8 * len(bitmap) and _bit(bitmap, b - base))]
                for one in came:
                    last, when = waiting.pop(one)
                    if last > newest:
                        newest = last
                        # Only a lost end waits for this; a slow line must not look like a lossy one.
                        round_s = max(0.3, 0.7 * round_s + 0.6 * (heard - when))
                if progress:
                    progress(len(blocks) - len(waiting), len(blocks))
            if self.clock() - heard > patience_s:
                raise LineBroken()

    def receive(self, patience_s: float = 20.0) -> bytes:
        """The next message. Raises ``LineBroken`` after ``patience_s`` without a good frame."""
        number, blocks, pending = None, 0, 0
        parts: Dict[int, bytes] = {}
        heard = acknowledged = self.clock()
        while True:
            frames = self.frames(QUIET_S)
            for kind, came, block, rest in frames:
                if kind != b"B":
                    continue
                heard = self.clock()
                total, payload = rest
                if self.done and came == self.done[0]:
                    self.acknowledge(came, self.done[1], {})
                    continue
                if not 0 < total <= LIMIT // BLOCK + 1 or block >= total:
                    continue
                if came != number:
                    number, parts, blocks = came, {}, total
                parts[block] = payload
                pending += 1
                if len(parts) == blocks:
                    self.done = (number, blocks)
                    self.acknowledge(number, blocks, {})
                    return b"".join(parts[at] for at in range(blocks))
            if number is not None and (pending >= 8 or (pending and not frames) or self.clock() - acknowledged > 0.5):
                base = next(at for at in range(blocks) if at not in parts)
                self.acknowledge(number, base, parts)
                pending, acknowledged = 0, self.clock()
            if self.clock() - heard > patience_s:
                raise LineBroken()

    def acknowledge(self, number: int, base: int, parts: Container[int]) -> None:
        """Acknowledge all blocks before ``base``, and those of the next ones that have come."""
        bits = bytearray(WINDOW // 8 + 1)
        for at in range(8 * len(bits)):
            if base + at in parts:
                bits[at // 8] |= 1 << at % 8
        self.write(frame(b"A", number, base, 0, bytes(bits)))

    def frames(self, seconds: float) -> List[Tuple[bytes, int, int, Any]]:
        """The good frames among what comes within ``seconds``: (kind, number, block, what the kind carries)."""
        self.rest += self.read(seconds)
        pieces = self.rest.split(b"\0")
        self.rest = pieces.pop()[-4096:]
        good = []
        for piece in pieces:
            body = uncobs(piece) if HEAD.size + 4 <= len(piece) <= BLOCK + 64 else None
            if body and len(body) >= HEAD.size + 4 and struct.pack(">I", zlib.crc32(body[:-4])) == body[-4:]:
                kind, number, block, blocks = HEAD.unpack(body[: HEAD.size])
                payload = body[HEAD.size : -4]
                good.append((kind, number, block, payload if kind == b"A" else (blocks, payload)))
            elif self.hang_up and self.hang_up in piece:
                raise LineBroken()
        return good


def _bit(bitmap: bytes, at: int) -> int:
    return bitmap[at // 8] >> at % 8 & 1
