"""The process that gets raw frames from a camera's daemon and sends them through a pipe to the inside.

It has no bundle, no sink and no network (``sandbox.daemon_camera``). Its messages are those of a process that fetches
a network camera's frames (``network.fetch``): frames of the sensor's shape and type, drops and failures.
"""

import json
import os
import time
from typing import Any, Dict, List, Optional

from edgeveil.edge_runtime.backoff import Backoff
from edgeveil.edge_runtime.errors import DeviceFailed, EdgeVeilError, FrameDropped, describe
from edgeveil.edge_runtime.ipc.schedule import NICE
from edgeveil.edge_runtime.sandbox import daemon_camera, hardening
from edgeveil.edge_runtime.sandbox.account import Account
from edgeveil.edge_runtime.sources.network.fetch import DROPPED, FAILED, MESSAGE, READING
from edgeveil.edge_runtime.storage.descriptor import write_all

_LONGEST_PAUSE_S = 30.0


def main(argv: List[str]) -> int:
    """``argv``: one JSON object of the descriptors ``settings`` (``source``, ``sensor``) and ``frames``, to write to,
    and of the ``account`` to run as (None: this one).
    """
    given = json.loads(argv[0])
    os.nice(NICE)
    hardening.no_core_dumps()
    hardening.end_with_parent()
    with os.fdopen(given["settings"], "rb") as file:
        settings = json.loads(file.read().decode("utf-8"))
    return run(settings, given["frames"], None if given["account"] is None else Account(*given["account"]))


def run(settings: Dict[str, Any], handle: int, account: Optional[Account] = None) -> int:
    """Ask for frames as ``settings`` say (``source``, ``sensor``) and write them to ``handle``, until nobody reads it.

    Returns the exit code.
    """
    _load()
    daemon_camera.enter(account)
    backoff = Backoff(most_s=_LONGEST_PAUSE_S)
    try:
        while True:
            began = time.monotonic()
            failure = _forward(settings, handle)
            _write(handle, FAILED, json.dumps(failure).encode("ascii"))
            if time.monotonic() - began > _LONGEST_PAUSE_S:
                backoff.reset()
            time.sleep(backoff.next_s())
    except (BrokenPipeError, KeyboardInterrupt):
        return 0  # the inside has gone


def _load() -> None:
    """GStreamer and its list of plugins, which a program of its own writes; one that is missing is said later."""
    import traceback  # noqa: F401 - for a word on an unexpected error, when Python's files may be out of reach

    from edgeveil.edge_runtime.sources.cameras import gst

    gst.load()


def _forward(settings: Dict[str, Any], handle: int) -> Dict[str, str]:
    """Send what the camera gives; returns why that ended."""
    from edgeveil.edge_runtime.sources.cameras.gst import GstSource

    try:
        with GstSource(settings["source"].partition(":")[2], settings["sensor"]) as source:
            while True:
                try:
                    frame = source.next()
                    if frame is None:
                        return {"word": "Disconnected", "text": "the camera has ended"}
                    _write(handle, READING, frame._data.tobytes())
                except FrameDropped as drop:
                    _write(handle, DROPPED, drop.reason.encode("ascii"))
    except BrokenPipeError:
        raise
    except DeviceFailed as error:
        return {"word": type(error).__name__, "text": str(error)}
    except EdgeVeilError as error:
        return {"word": "Unsupported", "text": str(error)}
    except Exception as error:
        return {"word": "Disconnected", "text": "the camera's daemon failed: {}".format(describe(error))}


def _write(handle: int, kind: bytes, data: bytes) -> None:
    write_all(handle, MESSAGE.pack(kind, len(data)) + data)
