"""``npz:DIR?rotate=100MB,1h``: one part after the other, for streams without an end.

A part is closed when it would exceed the size, is older than the time, or the disk is full. Closed parts are whole and
never changed; ``keep`` says how many stay, all where it is not given. While the disk is full, every frame is refused
with one sentence and counted.
"""

import contextlib
import os
import re
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sinks.base import Delivery, Sink
from edgeveil.edge_runtime.sinks.retention import Keep, parts_to_remove
from edgeveil.edge_runtime.storage import free_space
from edgeveil.edge_runtime.storage.atomic import WriteFailed, writing

# The longest time between two self-tests: at a privacy stop, parts closed since then may reveal too much.
SUSPECT_S = 3600.0


class RotatingSink(Sink):
    """``make(path)`` opens the sink of one part, ``suffix`` ends its name.

    ``frame_bytes`` is the size of a frame before compression; ``twice`` says that closing a part needs its size again
    on the disk.
    """

    def __init__(
        self,
        folder: str,
        make: Callable[[str], Sink],
        *,
        suffix: str,
        limits: Tuple[Optional[int], Optional[float]],
        frame_bytes: int,
        twice: bool = False,
        keep: Optional[Keep] = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._make, self._suffix, self._twice, self._keep = folder, make, suffix, twice, keep
        (self._most_bytes, self._most_s), self._frame_bytes, self._clock = limits, frame_bytes, clock
        if os.path.exists(folder) and not os.path.isdir(folder):
            raise BadInput("expected a folder for the parts at {}; there is a file".format(folder))
        with writing(folder):
            os.makedirs(folder, exist_ok=True)
            names = os.listdir(folder)
        numbers = [int(m.group(1)) for m in map(re.compile(r"part-([0-9]{8})(?:\..*)?").fullmatch, names) if m]
        self._next = max(numbers) + 1 if numbers else 0
        self._part: Optional[Sink] = None
        self._held, self._since_s, self._path = 0, 0.0, ""
        self._closed: List[Tuple[float, str]] = []
        self._counts = {"put": 0, "parts": 0, "lost": 0}
        # A wrong path or bundle fails now.
        self._open()
        self._remove_oldest()

    def _write(self, frame: Any) -> None:
        try:
            part = self._part_for_next()
            part.write(frame)
        except WriteFailed:
            self._counts["lost"] += 1
            # Save the part too. If that fails, its frames are counted there; the error is that of this frame.
            with contextlib.suppress(WriteFailed):
                self._finish()
            raise
        self._held += 1
        self._counts["put"] += 1

    def counts(self) -> Dict[str, int]:
        """``put``: frames taken; ``parts`` closed; ``lost``: frames that no disk took."""
        return dict(self._counts)

    def delivery(self) -> Delivery:
        """See ``Sink``."""
        return Delivery(self._counts["put"], 0, self._counts["lost"])

    def close(self) -> None:
        """Close the last part; remove it if it has no frame."""
        self._finish()

    def discard(self) -> None:
        """Remove the current part and those closed within the last hour; see ``SUSPECT_S``."""
        if self._part is not None:
            self._part.discard()
            self._remove(self._path)
            self._part = None
        for closed_s, path in self._closed:
            if closed_s >= self._clock() - SUSPECT_S:
                self._remove(path)
        self._closed = []

    def _part_for_next(self) -> Sink:
        if self._part is not None and not self._is_full() and self._has_space():
            return self._part
        self._finish()
        self._held = 0
        self._require_space()
        return self._open()

    def _is_full(self) -> bool:
        held = (self._held + 1) * self._frame_bytes
        too_big = self._most_bytes is not None and self._held > 0 and held > self._most_bytes
        return too_big or (self._most_s is not None and self._clock() - self._since_s >= self._most_s)

    def _has_space(self) -> bool:
        try:
            self._require_space()
        except WriteFailed:
            return False
        return True

    def _require_space(self) -> None:
        again = self._held + 1 if self._twice else 0
        free_space.require(os.path.join(self._folder, "part"), self._frame_bytes * (1 + again))

    def _open(self) -> Sink:
        path = os.path.join(self._folder, "part-{:08d}{}".format(self._next, self._suffix))
        part = self._part = self._make(path)
        self._path, self._held, self._since_s = path, 0, self._clock()
        self._next += 1
        return part

    def _finish(self) -> None:
        part, self._part = self._part, None
        if part is None:
            return
        if not self._held:
            part.discard()
            self._remove(self._path)
            return
        try:
            part.close()
        except WriteFailed:
            part.discard()
            self._counts["lost"] += self._held
            self._counts["put"] -= self._held
            raise
        self._counts["parts"] += 1
        self._remove_oldest()
        now = self._clock()
        self._closed = [(at, path) for at, path in self._closed if at >= now - SUSPECT_S] + [(now, self._path)]

    def _remove_oldest(self) -> None:
        if self._keep is None:
            return
        with contextlib.suppress(OSError):  # a part that somebody else removes meanwhile
            for path in parts_to_remove(self._folder, self._keep, self._path if self._part is not None else ""):
                self._remove(path)

    @staticmethod
    def _remove(path: str) -> None:
        with contextlib.suppress(OSError):
            if os.path.isdir(path):
                for name in os.listdir(path):
                    os.unlink(os.path.join(path, name))
                os.rmdir(path)
            else:
                os.unlink(path)
