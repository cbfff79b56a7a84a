"""``serial:/dev/ttyACM0,115200,lines``: samples of a microcontroller, as lines of text or as COBS frames.

A line is ``MICROSECONDS,VALUE,...``, a value for each channel; with ``*HH`` behind it, HH is the exclusive or of the
bytes before, in hexadecimal, and a line on which it does not fit is not taken. A frame (``cobs``) is an unsigned 32-bit
time in microseconds, a 32-bit float for each channel and the CRC-32 of all that, little-endian, COBS-coded, with a zero
byte behind. The clock may wrap around at 32 bits.
"""

import os
import re
import select
import struct
import termios
import zlib
from typing import Callable, Dict, List, Optional

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, Disconnected
from edgeveil.edge_runtime.manifest.manifest import Sampling
from edgeveil.edge_runtime.sources.series import Sample, Samples

WAIT_S = 0.25
READ = 1 << 16
LONGEST = 4096  # bytes of a line or frame: beyond it something else speaks
WRAP_US = 1 << 32
SPEEDS: Dict[int, int] = {
    int(name[1:]): getattr(termios, name) for name in dir(termios) if re.fullmatch(r"B[1-9][0-9]+", name)
}


class SerialPort(Samples):
    """Samples of one port. Raises ``BadInput`` for an address that is none, ``Disconnected`` where there is no port."""

    schemes = ("serial",)
    forms = ("serial:/dev/ttyACM0,115200,lines",)
    help = "samples of a series from a microcontroller, as `lines` or `cobs` [frames](#series)"
    sensor = "motion"  # or any other that a microcontroller reads
    gives = "motion"
    device_file = ""
    groups = ("serial_group",)

    live = True
    silent = "check its speed, its format (lines or cobs) and how many channels it sends"

    def __init__(self, where: str, sampling: Sampling) -> None:
        path, _, rest = where.partition(",")
        speed, _, form = rest.partition(",")
        if not (speed.isdigit() and int(speed) in SPEEDS and form in ("lines", "cobs")):
            raise BadInput(
                "expected serial:PORT,SPEED,lines or cobs, such as serial:/dev/ttyACM0,115200,lines, with a SPEED that "
                "this system has; got {!r}".format("serial:" + where)
            )
        self.name = "serial port " + path
        channels = len(sampling.channels)
        self._ends = b"\n" if form == "lines" else b"\0"
        self._decode: Callable[[bytes], Optional[np.ndarray]]
        self._decode = _Line(channels) if form == "lines" else _Frame(channels)
        self._handle = _open_port(path, SPEEDS[int(speed)])
        self._tail, self._first = b"", True
        self._clock = _Clock()

    def read(self) -> Optional[List[Sample]]:
        """The samples that came; the first piece, which may have lost its beginning, is not counted."""
        if not select.select([self._handle], [], [], WAIT_S)[0]:
            return []
        try:
            data = os.read(self._handle, READ)
        except OSError:
            data = b""
        if not data:
            raise Disconnected("{} was unplugged".format(self.name))
        pieces = (self._tail + data).split(self._ends)
        self._tail = pieces.pop()[-LONGEST:]
        if self._first and pieces:
            self._first = False
            pieces = pieces[1:]
        return [self._sample(piece) for piece in pieces if piece.strip()]

    def _sample(self, piece: bytes) -> Sample:
        values = self._decode(piece)
        return None if values is None else (self._clock.seconds(int(values[0])), values[1:])

    def close(self) -> None:
        """Close the port."""
        os.close(self._handle)


class _Clock(object):
    """Seconds of a counter of microseconds that wraps around."""

    def __init__(self) -> None:
        self._last: Optional[int] = None
        self._whole = 0

    def seconds(self, now_us: int) -> float:
        if self._last is not None and self._last - now_us > WRAP_US // 2:
            self._whole += WRAP_US
        elif self._last is not None and now_us - self._last > WRAP_US // 2:
            self._whole -= WRAP_US  # a sample from before the wrap, which came late
        self._last = now_us
        return (self._whole + now_us) / 1e6


class _Line(object):
    """Time and values float64 (1 + channels,) of a line; None where it is none."""

    def __init__(self, channels: int) -> None:
        number = r"[-+]?(?:[0-9]{1,20}\.?[0-9]{0,20}|\.[0-9]{1,20})(?:[eE][-+]?[0-9]{1,2})?"
        form = r"([ \t]*[0-9]{{1,10}}(?:[ \t]*,[ \t]*{}){{{}}})(?:\*([0-9A-Fa-f]{{2}}))?[ \t]*\r?"
        self._form = re.compile(form.format(number, channels))

    def __call__(self, piece: bytes) -> Optional[np.ndarray]:
        match = self._form.fullmatch(piece.decode("latin-1"))
        if match is None:
            return None
        told, check = match.groups()
        if check is not None and int(check, 16) != _exclusive_or(told.encode("ascii")):
            return None
        values = np.array([float(word) for word in told.split(",")])
        return values if values[0] < WRAP_US else None


class _Frame(object):
    """Time and values float64 (1 + channels,) of a COBS frame; None where it is none."""

    def __init__(self, channels: int) -> None:
        self._form = struct.Struct("<I{}f".format(channels))

    def __call__(self, piece: bytes) -> Optional[np.ndarray]:
        data = uncobs(piece)
        if data is None or len(data) != self._form.size + 4:
            return None
        body, check = data[:-4], struct.unpack("<I", data[-4:])[0]
        if zlib.crc32(body) & 0xFFFFFFFF != check:
            return None
        values = np.array(self._form.unpack(body), np.float64)
        return values if np.isfinite(values).all() else None


def uncobs(data: bytes) -> Optional[bytes]:
    """What COBS (Cheshire and Baker, 1999) coded as ``data``, which has no zero byte; None where that is nothing."""
    out, at = bytearray(), 0
    while at < len(data):
        size = data[at]
        if size == 0 or at + size > len(data):
            return None
        out += data[at + 1 : at + size]
        at += size
        if size < 255 and at < len(data):
            out.append(0)
    return bytes(out)


def _exclusive_or(data: bytes) -> int:
    checksum = 0
    for byte in data:
        checksum ^= byte
    return checksum


def _open_port(path: str, speed: int) -> int:
    """The port's file descriptor: eight bits, no parity, one stop bit, and every byte as it comes."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Disconnected("serial port {} cannot be opened: {}".format(path, str(error.strerror).lower())) from None
    try:
        settings = termios.tcgetattr(handle)
        settings[0] = settings[1] = settings[3] = 0
        settings[2] = termios.CS8 | termios.CREAD | termios.CLOCAL
        settings[4] = settings[5] = speed
        settings[6][termios.VMIN], settings[6][termios.VTIME] = 0, 0
        termios.tcsetattr(handle, termios.TCSAFLUSH, settings)
    except termios.error:
        os.close(handle)
        raise BadInput("expected a serial port at {}; it is another kind of file".format(path)) from None
    return handle
