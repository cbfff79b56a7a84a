"""``ld2410:/dev/ttyUSB0``: the energies of a HLK-LD2410 radar, which it reports in its engineering mode, by pyserial.

Frames as in "HLK-LD2410 serial communication protocol", V1.02: a head, a length of two bytes, the data, an end; numbers
are little-endian.
"""

from typing import Any, Optional

import numpy as np

from edgeveil.edge_runtime.errors import Disconnected, FrameDropped, Stalled, Unsupported
from edgeveil.edge_runtime.sources.base import STALL_S, Camera, Freshness, Sensor
from edgeveil.edge_runtime.sources.install_hints import Claim, load

GATES = 9  # of 0.75 m each
SHAPE = (2, GATES, 1)
SPEED = 256000
_COMMAND, _COMMAND_END = b"\xfd\xfc\xfb\xfa", b"\x04\x03\x02\x01"
_REPORT, _REPORT_END = b"\xf4\xf3\xf2\xf1", b"\xf8\xf7\xf6\xf5"
# Configuration begins, engineering mode, configuration ends.
_COMMANDS = (b"\xff\x00\x01\x00", b"\x62\x00", b"\xfe\x00")
_ENGINEERING, _BEGIN = 1, 0xAA
_ENERGIES_AT = 13  # in the data: type, begin, state, three distances and two energies, and the last gates
_MOST = 256  # bytes of a report at most


class Ld2410Source(Camera):
    """The energies 0 to 100 of moving and of still targets in each gate: uint8 (2, 9, 1), about ten a second."""

    schemes = ("ld2410",)
    forms = ("ld2410:/dev/ttyUSB0",)
    help = "energies (moving and still, 9 gates of 0.75 m) of a HLK-LD2410 radar, in a process of its own"
    needs = ("serial",)
    gives = "energies of 2 x 9 gates"
    axes = 3
    channels = (1,)
    apart = True
    quiet = True
    devices = ("char-ttyUSB", "char-ttyACM", "char-ttyAMA", "char-ttyS")
    groups = ("serial_group",)

    def __init__(self, where: str, spec: Sensor) -> None:
        if tuple(spec["shape"]) != SHAPE or np.dtype(spec["dtype"]) != np.uint8:
            raise Unsupported(
                "an LD2410 gives uint8 {}; this bundle takes {} {}".format(SHAPE, spec["dtype"], tuple(spec["shape"]))
            )
        super(Ld2410Source, self).__init__("LD2410 at " + where, spec)
        self.freshness = Freshness(self.name, float("inf"))  # of an empty room all energies are 0
        self._serial = load("serial", "an LD2410 is read by pyserial", "serial")
        self._claim = Claim("ld2410 " + where)
        self._port: Any = None
        self._start(where)

    def _open(self, where: str) -> None:
        try:
            self._port = self._serial.Serial(where, SPEED, timeout=STALL_S, write_timeout=STALL_S)
            for command in _COMMANDS:
                self._port.write(_COMMAND + len(command).to_bytes(2, "little") + command + _COMMAND_END)
                self._find(_COMMAND, _COMMAND_END)
        except (OSError, ValueError) as error:
            raise Disconnected("{} cannot be opened ({})".format(self.name, str(error)[:120])) from None

    def _read(self) -> np.ndarray:
        try:
            data = self._find(_REPORT, _REPORT_END)
        except OSError:
            raise Disconnected("{} was unplugged".format(self.name)) from None
        if len(data) < _ENERGIES_AT + 2 * GATES or data[0] != _ENGINEERING or data[1] != _BEGIN:
            raise FrameDropped("shape")
        return np.frombuffer(data, np.uint8, 2 * GATES, _ENERGIES_AT).reshape(SHAPE).copy()

    def _find(self, head: bytes, end: bytes) -> bytes:
        """The data of the next frame with that head. Raises ``Stalled``, ``FrameDropped``."""
        last = b""
        for _ in range(1 << 16):
            last = (last + self._exactly(1))[-len(head) :]
            if last == head:
                break
        size = int.from_bytes(self._exactly(2), "little")
        if size > _MOST:
            raise FrameDropped("unreadable")
        data = self._exactly(size)
        if self._exactly(len(end)) != end:
            raise FrameDropped("unreadable")
        return data

    def _exactly(self, size: int) -> bytes:
        data: Optional[bytes] = self._port.read(size)
        if data is None or len(data) < size:
            raise Stalled(
                "{} sent nothing for {:.0f} s: is it an LD2410, at {} baud?".format(self.name, STALL_S, SPEED)
            )
        return data

    def close(self) -> None:
        """Close the port."""
        if self._port is not None:
            self._port.close()
            self._port = None
        self._claim.release()
