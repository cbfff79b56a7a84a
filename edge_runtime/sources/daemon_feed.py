"""The process that gets raw frames from a camera's daemon (``sandbox.daemon_camera``) and feeds them to the inside."""

from typing import List, Optional

from edgeveil.edge_runtime.sandbox import daemon_camera
from edgeveil.edge_runtime.sandbox.account import Account
from edgeveil.edge_runtime.sources.feeding import Pipe, Settings, begin, feed


def main(argv: List[str]) -> int:
    """``argv`` as ``feeding.begin`` takes it."""
    return run(*begin(argv))


def run(settings: Settings, handle: int, account: Optional[Account] = None) -> int:
    """Ask for frames as ``settings`` say and write them to ``handle``, until nobody reads it; returns the exit code."""
    # GStreamer and its list of plugins, which a program of its own writes; one that is missing is said later.
    import traceback  # noqa: F401 - for a word on an unexpected error, when Python's files may be out of reach

    from edgeveil.edge_runtime.sources.cameras import gst

    gst.load()
    daemon_camera.enter(account)

    def forward(pipe: Pipe) -> None:
        with gst.GstSource(settings["source"].partition(":")[2], settings["sensor"]) as source:
            pipe.samples(source)

    return feed(handle, forward)
