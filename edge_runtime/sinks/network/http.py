"""``http://`` and ``https://``: one POST a record, which has arrived when the server answers 2xx."""

import http.client
import os
import socket
import ssl
from typing import Any, Dict, List, Optional

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.sinks.network.base import OPTIONS, TIMEOUT_S, ConnectionLost, NetworkSink
from edgeveil.edge_runtime.sinks.network.tls import FILES, context
from edgeveil.edge_runtime.sinks.network.wire import json_bytes
from edgeveil.edge_runtime.sinks.uri import LOOPBACK, Known, address, secret

RECORD = "application/vnd.edgeveil.record"
COUNT = "application/vnd.edgeveil.count+json"
STATUS = "application/vnd.edgeveil.status+json"
FORMAT = "application/vnd.edgeveil.format+json"
# These refuse the record itself, for ever. All other errors may be cured at the far side.
_NEVER = (400, 406, 409, 410, 411, 413, 415, 422)
_ANSWER_BYTES = 2**16


class HttpSink(NetworkSink):
    """Posts the format once a connection, then each record; follows no redirects."""

    def __init__(self, uri: str, outputs: List[Output], manifest: Optional[Manifest], settings: Dict[str, Any]) -> None:
        secure = uri.startswith("https:")
        known: Known = dict(OPTIONS, authorization_file=str)
        known.update(FILES if secure else {})
        host, port, path, options = address(uri, 443 if secure else 80, known)
        self._path = path or "/"
        if any(ord(c) <= 32 or ord(c) > 126 for c in self._path):
            raise BadInput("expected an address of printable ASCII without spaces; got another character in its path")
        authorization = secret(
            options.get("authorization_file"), os.environ.get("EDGEVEIL_HTTP_AUTHORIZATION"), "an Authorization header"
        )
        if authorization and not secure and host not in LOOPBACK:
            raise BadInput("an Authorization header would cross the network in the clear: use https://")
        self._headers = {"Authorization": authorization} if authorization else {}
        self._secure: Optional[ssl.SSLContext] = context(options) if secure else None
        self._host, self._port = host, port
        self._client: Any = None
        # Without its path: that of a webhook is its password.
        name = "{}://{}:{}{}".format("https" if secure else "http", host, port, "/..." if self._path != "/" else "/")
        super(HttpSink, self).__init__(name, outputs, manifest, dict(settings, **options))

    def _connect(self) -> None:
        if self._secure:
            self._client = http.client.HTTPSConnection(self._host, self._port, timeout=TIMEOUT_S, context=self._secure)
        else:
            self._client = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
        self._client.connect()
        # A receiver that takes only records may refuse this, and the status.
        self._post(FORMAT, json_bytes(self._format.document))

    def _send(self, record: bytes) -> bool:
        return self._post(COUNT if self._is_count(record) else RECORD, record)

    def _send_status(self, document: Dict[str, Any]) -> None:
        self._post(STATUS, json_bytes(document))

    def _post(self, kind: str, data: bytes) -> bool:
        headers = dict(self._headers, **{"Content-Type": kind, "X-EdgeVeil-Format": self._format.document["key"]})
        try:
            self._client.request("POST", self._path, data, headers)
            answer = self._client.getresponse()
            rest = len(answer.read(_ANSWER_BYTES + 1))
        except http.client.HTTPException as error:
            raise ConnectionLost("the server did not answer in HTTP ({})".format(type(error).__name__)) from None
        if rest > _ANSWER_BYTES:
            raise ConnectionLost("the server answers with more than {} bytes".format(_ANSWER_BYTES))
        if 200 <= answer.status < 300:
            return True
        if answer.status in _NEVER:
            return False
        raise ConnectionLost("the server answers {}".format(answer.status))

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    def _socket_now(self) -> Optional[socket.socket]:
        client = self._client
        return client.sock if client is not None else None
