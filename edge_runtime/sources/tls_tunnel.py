"""TLS for ``rtsps://``: the certificate is checked here, by Python, and the bytes go on to FFmpeg over the loopback.

FFmpeg does not check certificates unless it is told to, and what it must be told differs by its version and its TLS
library; one that does not know the word goes on unchecked. So it speaks plain RTSP to a socket of this process.
"""

import select
import socket
import ssl
import threading
from typing import Any

from edgeveil.edge_runtime.camera_address import Address
from edgeveil.edge_runtime.errors import Disconnected, Stalled, Unsupported
from edgeveil.edge_runtime.sources.base import STALL_S

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
