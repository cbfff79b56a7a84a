"""``tcp://HOST:PORT``: length-prefixed records on one connection, after the document of the format."""

import select
import socket
import struct
from typing import Any, Dict, List, Optional

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.sinks.network_base import OPTIONS, TIMEOUT_S, ConnectionLost, NetworkSink
from edgeveil.edge_runtime.sinks.uri import address
from edgeveil.edge_runtime.sinks.wire import json_bytes

_LENGTH = struct.Struct(">I")


class TcpSink(NetworkSink):
    """Each message is four bytes of length (big-endian) and that many bytes: JSON, beginning with ``{``, or a record.

    Nothing is acknowledged, so records in flight when the connection breaks may be lost or sent again.
    """

    schemes = ("tcp",)
    forms = ("tcp://HOST:PORT",)
    help = "a length-prefixed record"

    def __init__(self, uri: str, outputs: List[Output], manifest: Optional[Manifest], settings: Dict[str, Any]) -> None:
        host, port, path, options = address(uri, 0, OPTIONS)
        if not port or path not in ("", "/"):
            raise BadInput("expected tcp://HOST:PORT; got no port, or a path behind it")
        self._address = (host, port)
        super(TcpSink, self).__init__("tcp://{}:{}".format(host, port), outputs, manifest, dict(settings, **options))

    def _connect(self) -> None:
        self._connection = socket.create_connection(self._address, TIMEOUT_S)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._message(json_bytes(self._format.document))

    def _send(self, record: bytes) -> bool:
        self._check()
        self._message(record)
        return True

    def _send_status(self, document: Dict[str, Any]) -> None:
        self._message(json_bytes(dict(document, kind="edgeveil-status")))

    def _check(self) -> None:
        readable = select.select([self._connection], [], [], 0)[0]
        if readable and not self._connection.recv(4096):
            raise ConnectionLost("the far side has closed the connection", "see its own log: it has to read records")

    def _message(self, data: bytes) -> None:
        self._connection.sendall(_LENGTH.pack(len(data)) + data)
