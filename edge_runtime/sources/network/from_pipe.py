"""The inside's end of a network camera: what the fetching process (``fetch.py``) sends, decoded here."""

import json
import os
import select
from typing import Optional

import numpy as np

from edgeveil.edge_runtime.errors import Disconnected, FrameDropped, Stalled, Unsupported
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.opencv import opencv
from edgeveil.edge_runtime.sources.base import STALL_S, Freshness, Sensor, Source, now_ns
from edgeveil.edge_runtime.sources.convert import fit, fits, need_image
from edgeveil.edge_runtime.sources.network.fetch import DROPPED, FAILED, JPEG, MESSAGE, READING
from edgeveil.edge_runtime.sources.network.http import MAX_JPEG_BYTES, decode

_FAILURES = {"Stalled": Stalled, "Unsupported": Unsupported, "Missing": Unsupported}
_REASONS = ("unreadable", "shape", "dtype")


class FetchedSource(Source):
    """Frames of the pipe ``handle``, which stays open: a source that broke down is opened again on the same one.

    ``name`` is the camera's address without credentials, ``sensor`` what it must give (``sources.base.expected``).
    """

    live = True
    raw_on_network = True

    def __init__(self, handle: int, name: str, sensor: Sensor, freshness: Optional[Freshness] = None) -> None:
        need_image(sensor, "a network camera")
        self._handle, self.name, self._cv2 = handle, name, opencv()
        self._sensor, self._dtype = sensor, np.dtype(sensor["dtype"])
        self._size = int(np.prod(sensor["shape"])) * self._dtype.itemsize
        self._fresh = freshness or Freshness(name)
        self._next = 0
        self._ahead: Optional[np.ndarray] = self._picture(first=True)

    def next(self) -> Optional[RawFrame]:
        """The next picture, waited for a little longer than the fetching process waits for the camera."""
        picture = self._ahead if self._ahead is not None else self._picture()
        self._ahead = None
        taken = now_ns()
        self._fresh.check(picture)
        index, self._next = self._next, self._next + 1
        return RawFrame(picture, index, taken)

    def _picture(self, first: bool = False) -> np.ndarray:
        kind, length = MESSAGE.unpack(self._read(MESSAGE.size))
        if length > max(MAX_JPEG_BYTES, self._size):
            raise Unsupported("the fetching process sent more than a picture; the inside starts again")
        data = self._read(length)
        if kind == READING and length == self._size:
            return np.frombuffer(data, self._dtype).reshape(self._sensor["shape"]).copy()
        if kind == JPEG:
            picture = decode(data, self._cv2)
            if first:
                return fits(picture, self._sensor, self.name, self._cv2)
            return fit(picture, self._sensor, self._cv2)
        if kind == DROPPED:
            reason = data.decode("ascii", "replace")
            raise FrameDropped(reason if reason in _REASONS else "unreadable")
        if kind == FAILED:
            failure = json.loads(data.decode("ascii"))
            raise _FAILURES.get(failure["word"], Disconnected)(failure["text"])
        raise Unsupported("the fetching process sent something else than frames; the inside starts again")

    def _read(self, count: int) -> bytes:
        parts = []
        while count:
            # The fetching process says itself when the camera stalls; this is for when it hangs too.
            if not select.select([self._handle], [], [], 1.5 * STALL_S)[0]:
                raise Stalled("nothing came from the process that fetches {}".format(self.name))
            part = os.read(self._handle, min(count, 1 << 20))
            if not part:
                raise Unsupported("the process that fetches {} has ended".format(self.name))
            parts.append(part)
            count -= len(part)
        return b"".join(parts)
