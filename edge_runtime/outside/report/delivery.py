"""One report brought to the owner's address: a broker, which keeps the last one of each board, or an HTTPS server."""

import hashlib
import http.client
import re
import threading
from typing import Optional

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.sinks.network.base import TIMEOUT_S, ConnectionLost
from edgeveil.edge_runtime.sinks.network.broker import Broker
from edgeveil.edge_runtime.sinks.network.server import Server

MEDIA_TYPE = "application/vnd.edgeveil.report+json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Destination(object):
    """Where reports go: ``mqtt(s)://HOST/TOPIC/NAME`` or ``http(s)://HOST/PATH/NAME``; ``board`` is that NAME.

    Raises ``BadInput``, and ``NeedsPaho`` for a broker.
    """

    def __init__(self, uri: str) -> None:
        kind = uri.partition("://")[0]
        if kind not in ("mqtt", "mqtts", "http", "https"):
            raise BadInput(
                "expected --to as mqtts://HOST/TOPIC/NAME or https://HOST/PATH/NAME; got {}:".format(kind[:9])
            )
        self._broker: Optional[Broker] = Broker(uri) if kind.startswith("mqtt") else None
        self._server: Optional[Server] = None if self._broker else Server(uri)
        self.board = (self._broker or self._server).path.rpartition("/")[2]  # type: ignore[union-attr]
        if not _NAME.fullmatch(self.board):
            raise BadInput(
                "expected the board's name at the end of the address (letters, digits, '.', '_', '-'), as "
                "mqtts://broker/fleet/hall-1"
            )

    def send(self, data: bytes) -> None:
        """Returns once the far side has it. Raises ``DeviceFailed``."""
        try:
            if self._broker is not None:
                _publish(self._broker, data)
            elif self._server is not None:
                _post(self._server, data)
        except (OSError, ConnectionLost) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise DeviceFailed(
                "the report did not arrive: {}. Check the address and the network; the next report counts it.".format(
                    reason
                )
            ) from None


def _publish(broker: Broker, data: bytes) -> None:
    """Retained, with quality of service 1."""
    name = broker.options.get("client_id") or "edgeveil-report-" + hashlib.sha256(broker.path.encode()).hexdigest()[:8]
    client = broker.client(name, reconnect=False)
    heard, arrived, answers = threading.Event(), threading.Event(), []

    def connected(_client: object, _data: object, _flags: object, code: object, *_: object) -> None:
        answers.append("" if code == 0 else str(code))
        heard.set()

    client.on_connect, client.on_publish = connected, lambda *_: arrived.set()
    client.connect(broker.host, broker.port, keepalive=30)
    client.loop_start()
    try:
        if not heard.wait(TIMEOUT_S):
            raise ConnectionLost("the broker does not answer")
        if answers[0]:
            raise ConnectionLost("the broker refuses the connection ({})".format(answers[0]))
        client.publish(broker.topic, data, qos=1, retain=True)
        if not arrived.wait(TIMEOUT_S):
            raise ConnectionLost("the broker did not confirm it")
        client.disconnect()
    finally:
        client.loop_stop()


def _post(server: Server, data: bytes) -> None:
    client = server.client()
    try:
        status = server.post(client, MEDIA_TYPE, data)
    finally:
        client.close()
    if not http.client.OK <= status < http.client.MULTIPLE_CHOICES:
        raise ConnectionLost("the server answers {}".format(status))
