"""A process that reads a camera and sends raw frames through a pipe to the inside, which may not reach that camera.

It has no bundle and no sinks, and sends frames nowhere else. A message is a kind (1 byte) and a length (4 bytes,
little-endian), then that many bytes: ``J`` a JPEG, ``R`` a frame of the sensor's shape and type, ``D`` a dropped frame
(its reason), ``F`` a failure (JSON: word, text).
"""

import json
import os
import struct
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from edgeveil.edge_runtime.errors import DeviceFailed, EdgeVeilError, FrameDropped, describe
from edgeveil.edge_runtime.ipc.counters import NICE
from edgeveil.edge_runtime.ipc.pipes import Backoff
from edgeveil.edge_runtime.kinds import SOURCES
from edgeveil.edge_runtime.sandbox import fetcher, hardening, isolation
from edgeveil.edge_runtime.sandbox.isolation import Account
from edgeveil.edge_runtime.util.filesystem import write_all

MESSAGE = struct.Struct("<cI")
JPEG, READING, DROPPED, FAILED = b"J", b"R", b"D", b"F"
_LONGEST_PAUSE_S = 30.0

Settings = Dict[str, Any]  # ``source`` and ``sensor``


class Pipe(object):
    """The end to write to. Raises ``BrokenPipeError`` when the inside has gone."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def samples(self, source: Any) -> None:
        """Send the frames of a source until it ends."""
        while True:
            try:
                frame = source.next()
                if frame is None:
                    return
                self._write(READING, frame._data.tobytes())
            except FrameDropped as drop:
                self._write(DROPPED, drop.reason.encode("ascii"))

    def jpegs(self, next_jpeg: Callable[[], bytes]) -> None:
        """Send pictures as they come, until ``next_jpeg`` raises."""
        while True:
            try:
                self._write(JPEG, next_jpeg())
            except FrameDropped as drop:
                self._write(DROPPED, drop.reason.encode("ascii"))

    def failed(self, word: str, text: str) -> None:
        """Say why the camera ended; ``word`` names the error."""
        self._write(FAILED, json.dumps({"word": word, "text": text}).encode("ascii"))

    def _write(self, kind: bytes, data: bytes) -> None:
        write_all(self._handle, MESSAGE.pack(kind, len(data)) + data)


def begin(argv: List[str]) -> Tuple[Settings, int, Optional[Account]]:
    """What a process of the service was given: its settings, the descriptor to write to, and whom to run as.

    ``argv`` is one JSON object of the descriptors ``settings`` and ``frames``, and of the ``account`` (None: this one).
    """
    given = json.loads(argv[0])
    os.nice(NICE)
    hardening.no_core_dumps()
    hardening.end_with_parent()
    with os.fdopen(given["settings"], "rb") as file:
        settings = json.loads(file.read().decode("utf-8"))
    return settings, given["frames"], None if given["account"] is None else Account(*given["account"])


def feed(handle: int, forward: Callable[[Pipe], None], stale: Callable[[], bool] = lambda: False) -> int:
    """Let ``forward`` send what a camera gives, again and again, with longer pauses after each failure.

    Returns the exit code once no one reads ``handle`` any more, or when this process is ``stale``: another one starts.
    """
    pipe, backoff = Pipe(handle), Backoff(most_s=_LONGEST_PAUSE_S)
    try:
        while True:
            began = time.monotonic()
            _forward(forward, pipe)
            if stale():
                return 0
            if time.monotonic() - began > _LONGEST_PAUSE_S:
                backoff.reset()
            time.sleep(backoff.next_s())
    except (BrokenPipeError, KeyboardInterrupt):
        return 0  # the inside has gone


def _forward(forward: Callable[[Pipe], None], pipe: Pipe) -> None:
    try:
        forward(pipe)
    except BrokenPipeError:
        raise
    except DeviceFailed as error:
        pipe.failed(type(error).__name__, str(error))
    except EdgeVeilError as error:
        pipe.failed("Unsupported", str(error))
    except Exception as error:
        pipe.failed("Disconnected", "the camera's reader failed: {}".format(describe(error)))
    else:
        pipe.failed("Disconnected", "the camera's stream has ended")


# The process itself: of a camera on a network, which it alone reaches (``sandbox.fetcher``), or of a camera's daemon.


def main(argv: List[str]) -> int:
    """``argv`` as ``begin`` takes it."""
    return run(*begin(argv))


def run(settings: Settings, handle: int, account: Optional[Account] = None) -> int:
    """Get frames as ``settings`` say and write them to ``handle``, until no one reads it; returns the exit code."""
    # All code is loaded first: later, its files may be out of reach of this process's user.
    import encodings.idna  # noqa: F401 - of host names; Python loads it with the first
    import traceback  # noqa: F401 - for a word on an unexpected error

    source, kind = settings["source"], SOURCES[settings["source"].partition(":")[0]]
    reader = kind.load()
    prepared = reader.prepare(source)

    def forward(pipe: Pipe) -> None:
        reader.forward(source, settings["sensor"], pipe, prepared)

    if "port" not in kind.facts:
        isolation.enter(account, runs=bool(kind.facts.get("apart")))
        return feed(handle, forward)
    fetcher.enter(source, account, own_port=getattr(prepared, "port", None))
    resolver = fetcher.resolver_state()
    # Where the list of name servers is another file, this process may not read it.
    return feed(handle, forward, stale=lambda: fetcher.resolver_state() != resolver)
