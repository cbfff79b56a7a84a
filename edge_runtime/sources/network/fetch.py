"""The process that fetches a network camera's frames for the inside, which has no network.

It can reach nothing but a network (``sandbox.fetcher``). JPEGs that come over HTTP are passed on as bytes: the inside
decodes them, where a decoder has no network to leak to. RTSP is decoded here, by OpenCV's FFmpeg, which cannot be
separated from its network code.
"""

import contextlib
from typing import Callable, List, Optional

from edgeveil.edge_runtime.errors import Missing
from edgeveil.edge_runtime.sandbox import fetcher
from edgeveil.edge_runtime.sandbox.account import Account
from edgeveil.edge_runtime.sources.feeding import Pipe, Settings, feed


def main(argv: List[str]) -> int:
    """As ``feeding.feed``."""
    return feed(argv, _enter, _forward)


def _enter(settings: Settings, account: Optional[Account]) -> Callable[[], bool]:
    # All code that fetches and decodes: later, its files may be out of reach of this process's user.
    import encodings.idna  # noqa: F401 - of host names; Python loads it with the first

    from edgeveil.edge_runtime.sources.network import http, rtsp  # noqa: F401

    if settings["source"].startswith("rtsp:"):
        with contextlib.suppress(Missing):  # the first picture that needs it says so
            rtsp.load()
    fetcher.enter(settings["source"], account)
    resolver = fetcher.resolver_state()
    return lambda: fetcher.resolver_state() != resolver


def _forward(settings: Settings, pipe: Pipe) -> None:
    if settings["source"].startswith("rtsp:"):
        from edgeveil.edge_runtime.sources.network.rtsp import RtspSource

        with RtspSource(settings["source"].partition(":")[2], settings["sensor"]) as source:
            pipe.samples(source)
        return
    from edgeveil.edge_runtime.sources.network.http import Pictures

    pictures = Pictures(settings["source"])
    with contextlib.closing(pictures):
        pipe.jpegs(pictures.next_jpeg)
