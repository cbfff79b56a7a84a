"""``http://`` and ``https://``: one POST a record, which has arrived when the server answers 2xx."""

from typing import Any, Dict, List, Optional

from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.sinks.broker import Server
from edgeveil.edge_runtime.sinks.network_base import OPTIONS, ConnectionLost, NetworkSink
from edgeveil.edge_runtime.sinks.wire import json_bytes

RECORD = "application/vnd.edgeveil.record"
COUNT = "application/vnd.edgeveil.count+json"
STATUS = "application/vnd.edgeveil.status+json"
FORMAT = "application/vnd.edgeveil.format+json"
# These refuse the record itself, for ever. All other errors may be cured at the far side.
_NEVER = (400, 406, 409, 410, 411, 413, 415, 422)


class HttpSink(NetworkSink):
    """Posts the format once a connection, then each record; follows no redirects."""

    schemes = ("http", "https")
    forms = ("http://HOST[:80]/PATH", "https://HOST[:443]/PATH")
    help = "a POST"
    secret_path = True
    reads = ("authorization_file", "ca", "cert", "key")

    def __init__(self, uri: str, outputs: List[Output], manifest: Optional[Manifest], settings: Dict[str, Any]) -> None:
        self._server = Server(uri, OPTIONS)
        super(HttpSink, self).__init__(self._server.name, outputs, manifest, dict(settings, **self._server.options))

    def _connect(self) -> None:
        self._connection = self._server.client()
        self._connection.connect()
        # A receiver that takes only records may refuse this, and the status.
        self._post(FORMAT, json_bytes(self._format.document))

    def _send(self, record: bytes) -> bool:
        return self._post(COUNT if self._is_count(record) else RECORD, record)

    def _send_status(self, document: Dict[str, Any]) -> None:
        self._post(STATUS, json_bytes(document))

    def _post(self, kind: str, data: bytes) -> bool:
        status = self._server.post(self._connection, kind, data, **{"X-EdgeVeil-Format": self._format.document["key"]})
        if 200 <= status < 300:
            return True
        if status in _NEVER:
            return False
        raise ConnectionLost("the server answers {}".format(status))
