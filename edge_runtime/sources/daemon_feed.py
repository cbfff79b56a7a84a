"""The process that gets raw frames from a camera's daemon (``sandbox.daemon_camera``) and feeds them to the inside."""

from typing import Callable, List, Optional

from edgeveil.edge_runtime.sandbox import daemon_camera
from edgeveil.edge_runtime.sandbox.account import Account
from edgeveil.edge_runtime.sources.feeding import Pipe, Settings, feed


def main(argv: List[str]) -> int:
    """As ``feeding.feed``."""
    return feed(argv, _enter, _forward)


def _enter(_settings: Settings, account: Optional[Account]) -> Callable[[], bool]:
    # GStreamer and its list of plugins, which a program of its own writes; one that is missing is said later.
    import traceback  # noqa: F401 - for a word on an unexpected error, when Python's files may be out of reach

    from edgeveil.edge_runtime.sources.cameras import gst

    gst.load()
    daemon_camera.enter(account)
    return lambda: False


def _forward(settings: Settings, pipe: Pipe) -> None:
    from edgeveil.edge_runtime.sources.cameras.gst import GstSource

    with GstSource(settings["source"].partition(":")[2], settings["sensor"]) as source:
        pipe.samples(source)
