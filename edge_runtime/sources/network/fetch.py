"""The fetching process: sends raw frames of a network camera through a pipe to the inside, which has no network.

It has no bundle and no sinks, sends frames nowhere else, and can reach nothing but a network (``sandbox.fetcher``).
JPEGs that come over HTTP are passed on as bytes: the inside decodes them, where a decoder has no network to leak to.
RTSP is decoded here, by OpenCV's FFmpeg, which cannot be separated from its network code.

A message is a kind (1 byte) and a length (4 bytes, little-endian), then that many bytes: ``J`` a JPEG, ``R`` a frame
of the sensor's shape and type, ``D`` a dropped frame (its reason), ``F`` a failure (JSON: word, text).
"""

import contextlib
import json
import os
import struct
import time
from typing import Any, Dict, List, Optional

from edgeveil.edge_runtime.backoff import Backoff
from edgeveil.edge_runtime.camera_address import parse
from edgeveil.edge_runtime.errors import DeviceFailed, EdgeVeilError, FrameDropped, Missing, describe
from edgeveil.edge_runtime.ipc.schedule import NICE
from edgeveil.edge_runtime.sandbox import fetcher, hardening
from edgeveil.edge_runtime.sandbox.account import Account
from edgeveil.edge_runtime.storage.descriptor import write_all

MESSAGE = struct.Struct("<cI")
JPEG, READING, DROPPED, FAILED = b"J", b"R", b"D", b"F"
_LONGEST_PAUSE_S = 30.0


def main(argv: List[str]) -> int:
    """``argv``: one JSON object of the descriptors ``settings`` (``source``, ``sensor``) and ``frames``, to write to,
    and of the ``account`` to run as (None: this one).
    """
    handles = json.loads(argv[0])
    os.nice(NICE)
    hardening.no_core_dumps()
    hardening.end_with_parent()
    with os.fdopen(handles["settings"], "rb") as file:
        settings = json.loads(file.read().decode("utf-8"))
    return run(settings, handles["frames"], None if handles["account"] is None else Account(*handles["account"]))


def run(settings: Dict[str, Any], handle: int, account: Optional[Account] = None) -> int:
    """Fetch frames as ``settings`` say (``source``, ``sensor``) and write them to ``handle``, until nobody reads it.

    Returns the exit code.
    """
    source = settings["source"]
    _load(source)
    tunnel = None
    if source.startswith("rtsps:"):
        from edgeveil.edge_runtime.sources.network.tls_tunnel import TlsTunnel

        tunnel = TlsTunnel(parse(source))
    fetcher.enter(source, account, own_port=None if tunnel is None else tunnel.port)
    resolver = fetcher.resolver_state()
    backoff = Backoff(most_s=_LONGEST_PAUSE_S)
    try:
        while True:
            began = time.monotonic()
            failure = _forward(settings, handle, tunnel)
            _write(handle, FAILED, json.dumps(failure).encode("ascii"))
            if fetcher.resolver_state() != resolver:
                return 0  # the inside ends with it, and the service starts both again
            if time.monotonic() - began > _LONGEST_PAUSE_S:
                backoff.reset()
            time.sleep(backoff.next_s())
    except (BrokenPipeError, KeyboardInterrupt):
        return 0  # the inside has gone


def _load(source: str) -> None:
    """All code that fetches and decodes: later, its files may be out of reach of this process's user."""
    import encodings.idna  # noqa: F401 - of host names; Python loads it with the first

    from edgeveil.edge_runtime.sources.network import http, rtsp  # noqa: F401

    if _is_rtsp(source):
        with contextlib.suppress(Missing):  # the first picture that needs it says so
            rtsp.load()


def _is_rtsp(source: str) -> bool:
    return source.partition(":")[0] in ("rtsp", "rtsps")


def _forward(settings: Dict[str, Any], handle: int, tunnel: Any) -> Dict[str, str]:
    """Send what the camera gives; returns why that ended. ``tunnel`` is that of ``rtsps:``, else None."""
    try:
        if _is_rtsp(settings["source"]):
            _forward_samples(settings, handle, tunnel)
        else:
            _forward_pictures(settings, handle)
        return {"word": "Disconnected", "text": "the camera's stream has ended"}
    except BrokenPipeError:
        raise
    except DeviceFailed as error:
        return {"word": type(error).__name__, "text": str(error)}
    except EdgeVeilError as error:
        return {"word": "Unsupported", "text": str(error)}
    except Exception as error:
        return {"word": "Disconnected", "text": "fetching failed: {}".format(describe(error))}


def _forward_pictures(settings: Dict[str, Any], handle: int) -> None:
    from edgeveil.edge_runtime.sources.network.http import Pictures

    pictures = Pictures(settings["source"])
    try:
        while True:
            try:
                _write(handle, JPEG, pictures.next_jpeg())
            except FrameDropped as drop:
                _write(handle, DROPPED, drop.reason.encode("ascii"))
    finally:
        pictures.close()


def _forward_samples(settings: Dict[str, Any], handle: int, tunnel: Any) -> None:
    from edgeveil.edge_runtime.sources.network.rtsp import RtspSource, RtspsSource

    where, sensor = settings["source"].partition(":")[2], settings["sensor"]
    with RtspSource(where, sensor) if tunnel is None else RtspsSource(where, sensor, tunnel=tunnel) as source:
        while True:
            try:
                frame = source.next()
                if frame is None:
                    return
                _write(handle, READING, frame._data.tobytes())
            except FrameDropped as drop:
                _write(handle, DROPPED, drop.reason.encode("ascii"))


def _write(handle: int, kind: bytes, data: bytes) -> None:
    write_all(handle, MESSAGE.pack(kind, len(data)) + data)
