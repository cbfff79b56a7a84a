"""``http://`` and ``https://``: one POST a record, which has arrived when the server answers 2xx.

With ``as=json``, ``as=png`` or ``as=jpeg`` it is a form of the record (``forms``), for servers that read no records.
"""

from typing import Any, Dict, List, Optional

from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.sinks.broker import Server
from edgeveil.edge_runtime.sinks.forms import FORMS, form_name
from edgeveil.edge_runtime.sinks.network_base import OPTIONS, ConnectionLost, NetworkSink
from edgeveil.edge_runtime.sinks.wire import json_bytes

RECORD = "application/vnd.edgeveil.record"
COUNT = "application/vnd.edgeveil.count+json"
STATUS = "application/vnd.edgeveil.status+json"
FORMAT = "application/vnd.edgeveil.format+json"
JSON = "application/json"
# These refuse the record itself, for ever. All other errors may be cured at the far side.
_NEVER = (400, 406, 409, 410, 411, 413, 415, 422)
_CURES = {
    **dict.fromkeys((401, 403), "name a file with the Authorization header that it wants: authorization_file="),
    **dict.fromkeys((404, 405), "name the path that takes a POST"),
    **dict.fromkeys((301, 302, 303, 307, 308), "name the address that it leads to"),
}


class HttpSink(NetworkSink):
    """Posts the format once a connection, then each record; follows no redirects.

    Of a form no format is posted, and of pictures no status: a header of each has it.
    """

    schemes = ("http", "https")
    forms = ("http://HOST[:80]/PATH", "https://HOST[:443]/PATH")
    help = "a POST; `as=json` (a webhook), `as=png` or `as=jpeg` for servers that read no records"
    secret_path = True
    reads = ("authorization_file", "ca", "cert", "key")

    def __init__(self, uri: str, outputs: List[Output], manifest: Optional[Manifest], settings: Dict[str, Any]) -> None:
        self._server = Server(uri, dict(OPTIONS, **{"as": form_name}))
        options = self._server.options
        self._as = options.pop("as", None)
        self._form = FORMS[self._as](outputs, manifest) if self._as else None
        super(HttpSink, self).__init__(self._server.name, outputs, manifest, dict(settings, **options))

    def _connect(self) -> None:
        self._connection = self._server.client()
        self._connection.connect()
        # A receiver that takes only records may refuse this, and the status.
        if self._as is None:
            self._post(FORMAT, json_bytes(self._format.document))

    def _send(self, record: bytes) -> bool:
        if self._is_count(record):
            return self._post(COUNT if self._form is None else JSON, record)
        if self._form is None:
            return self._post(RECORD, record)
        one = self._format.decode(record)
        headers = {"Id": one.id, "Tick": one.index, "Slot": one.slot, "State": self._state["state"]}
        return self._post(self._form.media_type, self._form.encode(one), headers)

    def _send_status(self, document: Dict[str, Any]) -> None:
        if self._as is None:
            self._post(STATUS, json_bytes(document))
        elif self._as == "json":
            self._post(JSON, json_bytes(dict(document, kind="edgeveil-status")))

    def _post(self, kind: str, data: bytes, headers: Optional[Dict[str, Any]] = None) -> bool:
        named = dict({"Format": self._format.document["key"]}, **headers or {})
        headers = {"X-EdgeVeil-" + name: str(value) for name, value in named.items()}
        status = self._server.post(self._connection, kind, data, **headers)
        if 200 <= status < 300:
            return True
        if status in _NEVER:
            self._refusal = "the server refuses what is sent ({})".format(status)
            return False
        raise ConnectionLost("the server answers {}".format(status), _CURES.get(status, "see its own log"))
