"""TLS for ``rtsps://``: the certificate is checked here, by Python, and the bytes go on to FFmpeg over the loopback.

FFmpeg does not check certificates unless it is told to, and what it must be told differs by its version and its TLS
library; one that does not know the word goes on unchecked. So it speaks plain RTSP to a socket of this process.
"""

import contextlib
import select
import socket
import ssl
import threading
from typing import Any, List, Optional

from edgeveil.edge_runtime.camera_address import Address, parse
from edgeveil.edge_runtime.errors import Disconnected, Missing, Stalled, Unsupported
from edgeveil.edge_runtime.sandbox import fetcher
from edgeveil.edge_runtime.sandbox.isolation import Account
from edgeveil.edge_runtime.sources.base import STALL_S
from edgeveil.edge_runtime.sources.feeding import Pipe, Settings, begin, feed

_CHUNK = 1 << 16


class TlsTunnel(object):
    """Listens on ``port`` of the loopback; ``open`` connects to the camera and hands the next caller there through.

    It may be opened again and again. Listening begins here, so that a process can forbid itself to listen later.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen(1)
        self._listening.settimeout(STALL_S)
        self.port = int(self._listening.getsockname()[1])
        self._context = ssl.create_default_context()
        self._far: Any = None

    def open(self) -> None:
        """Connect to the camera and check its certificate. Raises ``Disconnected``, ``Stalled`` or ``Unsupported``."""
        self.close()
        name, host = self._address.shown, self._address.host
        try:
            plain = socket.create_connection((host, self._address.port), timeout=STALL_S)
            try:
                self._far = self._context.wrap_socket(plain, server_hostname=host)
            except BaseException:
                plain.close()
                raise
        except ssl.CertificateError:
            raise Unsupported("{} has a certificate that this device does not trust".format(name)) from None
        except ssl.SSLError:
            raise Unsupported(
                "{} does not answer with TLS, or has a certificate that this device does not trust".format(name)
            ) from None
        except socket.timeout:
            raise Stalled("{} sent nothing for {:.0f} s".format(name, STALL_S)) from None
        except OSError as error:
            raise Disconnected("{} cannot be reached ({})".format(name, type(error).__name__)) from None
        threading.Thread(target=self._carry, args=(self._far,), daemon=True).start()

    def _carry(self, far: Any) -> None:
        near: Any = None
        try:
            near, _ = self._listening.accept()
            near.settimeout(STALL_S)
            far.setblocking(False)  # a message of TLS's own makes it readable, and has no byte for the reader
            while _from_camera(far, near) and _to_camera(near, far):
                if not far.pending():
                    select.select([far, near], [], [], STALL_S)
        except (OSError, ValueError):
            pass  # closed, here or there: the reader of ``near`` gets an end
        finally:
            for one in (near, far):
                if one is not None:
                    one.close()

    def close(self) -> None:
        """End the connection, if there is one; the port stays."""
        if self._far is not None:
            try:
                self._far.shutdown(socket.SHUT_RDWR)  # wakes the thread, which closes it
            except OSError:
                pass
            self._far = None

    def end(self) -> None:
        """End the connection and stop listening."""
        self.close()
        self._listening.close()


def _from_camera(far: Any, near: Any) -> bool:
    """Hand on what has come; returns whether there may be more."""
    try:
        data = far.recv(_CHUNK)
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return True
    near.sendall(data)
    return bool(data)


def _to_camera(near: Any, far: Any) -> bool:
    if not select.select([near], [], [], 0)[0]:
        return True
    data = near.recv(_CHUNK)
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[far.send(rest) :]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not select.select([], [far], [], STALL_S)[1]:
                return False
    return bool(data)


# The process that fetches a network camera's frames for the inside, which has no network.
#
# It can reach nothing but a network (``sandbox.fetcher``). JPEGs that come over HTTP are passed on as bytes: the inside
# decodes them, where a decoder has no network to leak to. RTSP is decoded here, by OpenCV's FFmpeg, which cannot be
# separated from its network code; the TLS of ``rtsps:`` is Python's.


def main(argv: List[str]) -> int:
    """``argv`` as ``feeding.begin`` takes it."""
    return run(*begin(argv))


def run(settings: Settings, handle: int, account: Optional[Account] = None) -> int:
    """Fetch frames as ``settings`` say and write them to ``handle``, until nobody reads it; returns the exit code."""
    source = settings["source"]
    _load(source)
    tunnel = None
    if source.startswith("rtsps:"):
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

    from edgeveil.edge_runtime.sources import http, rtsp  # noqa: F401

    if _is_rtsp(source):
        with contextlib.suppress(Missing):  # the first picture that needs it says so
            rtsp.load()


def _is_rtsp(source: str) -> bool:
    return source.partition(":")[0] in ("rtsp", "rtsps")


def _forward(settings: Settings, pipe: Pipe, tunnel: Any) -> None:
    """Send what the camera gives. ``tunnel`` is that of ``rtsps:``, else None."""
    if _is_rtsp(settings["source"]):
        from edgeveil.edge_runtime.sources.rtsp import RtspSource, RtspsSource

        where, sensor = settings["source"].partition(":")[2], settings["sensor"]
        with RtspSource(where, sensor) if tunnel is None else RtspsSource(where, sensor, tunnel=tunnel) as source:
            pipe.samples(source)
        return
    from edgeveil.edge_runtime.sources.http import Pictures

    pictures = Pictures(settings["source"])
    with contextlib.closing(pictures):
        pipe.jpegs(pictures.next_jpeg)
