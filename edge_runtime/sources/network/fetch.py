"""The process that fetches a network camera's frames for the inside, which has no network.

It can reach nothing but a network (``sandbox.fetcher``). JPEGs that come over HTTP are passed on as bytes: the inside
decodes them, where a decoder has no network to leak to. RTSP is decoded here, by OpenCV's FFmpeg, which cannot be
separated from its network code; the TLS of ``rtsps:`` is Python's.
"""

import contextlib
from typing import Any, List, Optional

from edgeveil.edge_runtime.camera_address import parse
from edgeveil.edge_runtime.errors import Missing
from edgeveil.edge_runtime.sandbox import fetcher
from edgeveil.edge_runtime.sandbox.account import Account
from edgeveil.edge_runtime.sources.feeding import Pipe, Settings, begin, feed


def main(argv: List[str]) -> int:
    """``argv`` as ``feeding.begin`` takes it."""
    return run(*begin(argv))


def run(settings: Settings, handle: int, account: Optional[Account] = None) -> int:
    """Fetch frames as ``settings`` say and write them to ``handle``, until nobody reads it; returns the exit code."""
    source = settings["source"]
    _load(source)
    tunnel = None
    if source.startswith("rtsps:"):
        from edgeveil.edge_runtime.sources.network.tls_tunnel import TlsTunnel

        tunnel = TlsTunnel(parse(source))
    fetcher.enter(source, account, own_port=None if tunnel is None else tunnel.port)
    resolver = fetcher.resolver_state()
    return feed(
        handle,
        lambda pipe: _forward(settings, pipe, tunnel),
        # Where the list of name servers is another file, this process may not read it.
        stale=lambda: fetcher.resolver_state() != resolver,
    )


def _load(source: str) -> None:
    """All code that fetches and decodes: later, its files may be out of reach of this process's user."""
    import encodings.idna  # noqa: F401 - of host names; Python loads it with the first

    from edgeveil.edge_runtime.sources.network import http, rtsp  # noqa: F401

    if _is_rtsp(source):
        with contextlib.suppress(Missing):  # the first picture that needs it says so
            rtsp.load()


def _is_rtsp(source: str) -> bool:
    return source.partition(":")[0] in ("rtsp", "rtsps")


def _forward(settings: Settings, pipe: Pipe, tunnel: Any) -> None:
    """Send what the camera gives. ``tunnel`` is that of ``rtsps:``, else None."""
    if _is_rtsp(settings["source"]):
        from edgeveil.edge_runtime.sources.network.rtsp import RtspSource, RtspsSource

        where, sensor = settings["source"].partition(":")[2], settings["sensor"]
        with RtspSource(where, sensor) if tunnel is None else RtspsSource(where, sensor, tunnel=tunnel) as source:
            pipe.samples(source)
        return
    from edgeveil.edge_runtime.sources.network.http import Pictures

    pictures = Pictures(settings["source"])
    with contextlib.closing(pictures):
        pipe.jpegs(pictures.next_jpeg)
