"""An HTTP server: where ``http://HOST/PATH`` or ``https://`` leads, and one POST to it."""

import http.client
import os
import ssl
from typing import Any, Optional

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sinks.network.base import TIMEOUT_S, ConnectionLost
from edgeveil.edge_runtime.sinks.network.tls import FILES, context
from edgeveil.edge_runtime.sinks.uri import LOOPBACK, Known, address, secret

_ANSWER_BYTES = 2**16


class Server(object):
    """The server of a URI: its ``path``, and ``name``, which is all that without secrets.

    ``options`` are those of the URI, of which ``known`` are not the server's. An Authorization header comes from a file
    or the environment. Raises ``BadInput``.
    """

    def __init__(self, uri: str, known: Optional[Known] = None) -> None:
        secure = uri.startswith("https:")
        options: Known = dict(known or {}, authorization_file=str, **(FILES if secure else {}))
        self._host, self._port, path, self.options = address(uri, 443 if secure else 80, options)
        self.path = path or "/"
        if any(ord(c) <= 32 or ord(c) > 126 for c in self.path):
            raise BadInput("expected an address of printable ASCII without spaces; got another character in its path")
        authorization = secret(
            self.options.get("authorization_file"),
            os.environ.get("EDGEVEIL_HTTP_AUTHORIZATION"),
            "an Authorization header",
        )
        if authorization and not secure and self._host not in LOOPBACK:
            raise BadInput("an Authorization header would cross the network in the clear: use https://")
        self._headers = {"Authorization": authorization} if authorization else {}
        self._secure: Optional[ssl.SSLContext] = context(self.options) if secure else None
        # Without its path: that of a webhook is its password.
        rest = "/..." if self.path != "/" else "/"
        self.name = "{}://{}:{}{}".format("https" if secure else "http", self._host, self._port, rest)

    def client(self) -> Any:
        """A connection that is not open yet."""
        if self._secure:
            return http.client.HTTPSConnection(self._host, self._port, timeout=TIMEOUT_S, context=self._secure)
        return http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)

    def post(self, client: Any, kind: str, data: bytes, **headers: str) -> int:
        """The status that the server answers; follows no redirects. Raises ``ConnectionLost`` and ``OSError``."""
        try:
            client.request("POST", self.path, data, dict(self._headers, **{"Content-Type": kind}, **headers))
            answer = client.getresponse()
            rest = len(answer.read(_ANSWER_BYTES + 1))
        except http.client.HTTPException as error:
            raise ConnectionLost("the server did not answer in HTTP ({})".format(type(error).__name__)) from None
        if rest > _ANSWER_BYTES:
            raise ConnectionLost("the server answers with more than {} bytes".format(_ANSWER_BYTES))
        return int(answer.status)
