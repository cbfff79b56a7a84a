"""The inside's end of a camera that another process reads: what ``feeding`` sends, decoded here."""

import json
import os
import select

import numpy as np

from edgeveil.edge_runtime.camera_address import on_network
from edgeveil.edge_runtime.errors import DeviceFailed, Disconnected, FrameDropped, Stalled, Unsupported
from edgeveil.edge_runtime.sources.base import STALL_S, Camera, Freshness, Sensor
from edgeveil.edge_runtime.sources.convert import decode, fit, fits, need_image
from edgeveil.edge_runtime.sources.feeding import DROPPED, FAILED, JPEG, MESSAGE, READING
from edgeveil.edge_runtime.sources.http import MAX_JPEG_BYTES

_FAILURES = {"Stalled": Stalled, "Unsupported": Unsupported, "Missing": Unsupported}
_REASONS = ("unreadable", "shape", "dtype")


class FetchedSource(Camera):
    """Frames of the pipe ``handle``, which stays open: a source that failed is opened again on the same one.

    ``name`` is the camera's address without credentials, ``sensor`` what it must give (``manifest.sensor.expected``).
    Frames of a ``quiet`` one may be equal for long.
    """

    def __init__(self, handle: int, name: str, sensor: Sensor, *, quiet: bool = False) -> None:
        need_image(sensor, "a camera of another process")
        self.raw_on_network = on_network(name)
        super(FetchedSource, self).__init__(name, sensor)
        if quiet:
            self.freshness = Freshness(name, float("inf"))
        self._handle, self._dtype = handle, np.dtype(sensor["dtype"])
        self._size = int(np.prod(sensor["shape"])) * self._dtype.itemsize
        self._ahead = self._read()

    def _read(self) -> np.ndarray:
        kind, length = MESSAGE.unpack(self._receive(MESSAGE.size))
        if length > max(MAX_JPEG_BYTES, self._size):
            raise Unsupported("the fetching process sent more than a picture; the inside starts again")
        data = self._receive(length)
        if kind == READING and length == self._size:
            return np.frombuffer(data, self._dtype).reshape(self._spec["shape"]).copy()
        if kind == JPEG:
            picture = decode(data, self._spec, self.name, first=self._next == 0)
            return fits(picture, self._spec, self.name) if self._next == 0 else fit(picture, self._spec)
        if kind == DROPPED:
            reason = data.decode("ascii", "replace")
            raise FrameDropped(reason if reason in _REASONS else "unreadable")
        if kind == FAILED:
            raise _failure(data)
        raise Unsupported("the fetching process sent something other than frames; the inside starts again")

    def _receive(self, count: int) -> bytes:
        parts = []
        while count:
            # The fetching process reports a stalled camera itself; this is for when it hangs too.
            if not select.select([self._handle], [], [], 1.5 * STALL_S)[0]:
                raise Stalled("nothing came from the process that fetches {}".format(self.name))
            part = os.read(self._handle, min(count, 1 << 20))
            if not part:
                raise Unsupported("the process that fetches {} has ended".format(self.name))
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def _failure(data: bytes) -> DeviceFailed:
    """What the fetching process says of its end; it reads a stranger's bytes, and may be anything."""
    try:
        failure = json.loads(data.decode("ascii"))
        return _FAILURES.get(failure["word"], Disconnected)(str(failure["text"])[:1000])
    except (ValueError, KeyError, TypeError, RecursionError):
        return Unsupported("the fetching process sent something other than frames; the inside starts again")
