"""``raw:-`` and ``raw:unix:PATH``: frames as the bundle takes them, byte after byte, from a pipe or a local socket.

A frame is the samples of one reading in C order, little-endian, with nothing before, between or behind. Where several
have come, the newest is taken.
"""

import fcntl
import os
import select
import socket
import struct
import sys
import termios
from typing import Any, Optional

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, Disconnected
from edgeveil.edge_runtime.sources.base import STALL_S, Camera, Freshness, Sensor
from edgeveil.edge_runtime.sources.convert import need_image

BEHIND = 1 << 30  # bytes in one system call at most


class RawFrames(object):
    """Reads frames of ``sensor`` from a descriptor. ``name`` is for messages."""

    def __init__(self, handle: int, name: str, sensor: Sensor) -> None:
        need_image(sensor, name)
        self._handle, self._name = handle, name
        self._dtype, self._shape = np.dtype(sensor["dtype"]).newbyteorder("<"), tuple(sensor["shape"])
        self._size = int(np.prod(self._shape)) * self._dtype.itemsize

    def read(self) -> Optional[np.ndarray]:
        """The newest frame, waited for at most ``STALL_S``; None where nothing came, or the end in ``ended``.

        Raises ``EOFError`` at an end, also one within a frame.
        """
        data = self._frame()
        while data is not None and self._there() >= self._size:
            data = self._frame()
        if data is None:
            return None
        frame = np.frombuffer(data, self._dtype).reshape(self._shape)
        return frame.astype(self._dtype.newbyteorder("="))

    def _frame(self) -> Optional[bytearray]:
        data, at = bytearray(self._size), 0
        while at < self._size:
            if not select.select([self._handle], [], [], STALL_S)[0]:
                return None
            part = os.read(self._handle, min(self._size - at, BEHIND))
            if not part:
                raise EOFError("{} of {} bytes of a frame".format(at, self._size) if at else "")
            data[at : at + len(part)] = part
            at += len(part)
        return data

    def _there(self) -> int:
        return int(struct.unpack("i", fcntl.ioctl(self._handle, termios.FIONREAD, b"\0\0\0\0"))[0])


class RawSource(Camera):
    """Frames of the standard input, or of a socket in the file system."""

    schemes = ("raw",)
    forms = ("raw:-", "raw:unix:PATH")
    help = "frames in the bundle's shape and type, little-endian, one behind the other, from standard input or a socket"
    daemon = "unix:.*"
    quiet = True

    def __init__(self, where: str, spec: Sensor) -> None:
        if where != "-" and not where.startswith("unix:/"):
            raise BadInput("expected raw:- or raw:unix:/PATH; got {!r}".format("raw:" + where))
        super(RawSource, self).__init__("raw frames of " + ("standard input" if where == "-" else where), spec)
        self.freshness = Freshness(self.name, float("inf"))
        self._socket: Optional[socket.socket] = None
        self._start(where)

    def _open(self, where: str) -> None:
        if where == "-":
            handle = sys.stdin.fileno()
        else:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(STALL_S)
            try:
                self._socket.connect(where[len("unix:") :])
            except OSError as error:
                what = (error.strerror or str(error)).lower()
                raise Disconnected("{} cannot be reached ({})".format(self.name, what)) from None
            handle = self._socket.fileno()
        self._frames = RawFrames(handle, self.name, self._spec)

    def _read(self) -> Any:
        try:
            frame = self._frames.read()
        except EOFError as error:
            if self._socket is None and not str(error):
                return None  # the end of a pipe is the end of its stream
            raise Disconnected(
                "{} ended{}".format(self.name, " in a frame: {}".format(error) if str(error) else "")
            ) from None
        if frame is None:
            raise self._stalled()
        return frame

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
