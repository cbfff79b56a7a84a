"""``kafka://HOST/TOPIC`` and ``kafkas://`` (TLS): every record as one message, through kafka-python.

A record is done when all replicas in sync have it (acks=all). One in flight when a connection breaks is sent again with
the same id in its header. Messages are not compressed: their size would depend on what they show.
"""

import collections
import json
import logging
import os
import re
from typing import Any, Deque, Dict, List, Optional, Tuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.sinks.broker import FILES, client, context
from edgeveil.edge_runtime.sinks.forms import FORMS, form_name
from edgeveil.edge_runtime.sinks.http import COUNT, FORMAT, RECORD, STATUS
from edgeveil.edge_runtime.sinks.network_base import LOGIN, OPTIONS, TIMEOUT_S, ConnectionLost, NetworkSink
from edgeveil.edge_runtime.sinks.uri import LOOPBACK, Known, address, secret
from edgeveil.edge_runtime.sinks.wire import json_bytes

UNDER_WAY = 20  # most records that wait for their acknowledgement
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def _mechanism(text: str) -> str:
    if text not in MECHANISMS:
        raise BadInput("expected sasl={}; got {!r}".format(" or ".join(MECHANISMS), text))
    return text


def _topic(path: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", path) or path in (".", ".."):
        raise BadInput("expected a topic as hall-door, of letters, digits, dots, _ and -; got {!a}".format(path))
    return path


class KafkaSink(NetworkSink):
    """Sends all to one topic: the header ``content-type`` names records, format, status and counts as for HTTP, and
    ``edgeveil-id`` a record. The key is ``name=`` or the bundle's name, and the slot: their order is kept."""

    schemes = ("kafka", "kafkas")
    forms = ("kafka://HOST[:9092]/TOPIC", "kafkas://HOST[:9093]/TOPIC")
    help = "a message that all replicas have; keyed by `name=` (the bundle's) and the slot; `as=` as for HTTP"
    needs = ("kafka",)
    reads = ("password_file", "ca", "cert", "key")

    def __init__(self, uri: str, outputs: List[Output], manifest: Optional[Manifest], settings: Dict[str, Any]) -> None:
        secure = uri.startswith("kafkas:")
        known: Known = dict(OPTIONS, user=str, password_file=str, sasl=_mechanism, name=str, client_id=str)
        known.update({"as": form_name}, **(FILES if secure else {}))
        host, port, path, options = address(uri, 9093 if secure else 9092, known)
        self._topic = _topic(path[1:])
        self._kafka = client("kafka", "Kafka needs kafka-python", "kafka")
        where = "{}:{}".format("[{}]".format(host) if ":" in host else host, port)
        self._options = dict(
            _login(options, secure=secure, safe=secure or host in LOOPBACK),
            bootstrap_servers=[where],
            client_id=options.pop("client_id", None) or "edgeveil",
            acks="all",
            retries=0,  # the spool sends again
            enable_idempotence=False,
            linger_ms=0,
            max_in_flight_requests_per_connection=1,  # else one that is sent again comes behind the next
            max_block_ms=int(TIMEOUT_S * 1e3),
            request_timeout_ms=int(TIMEOUT_S * 1e3),
        )
        if secure:
            self._options["ssl_context"] = context(options)
        form = options.pop("as", None)
        self._form = FORMS[form](outputs, manifest) if form else None
        self._key = options.pop("name", None) or (manifest.name if manifest else "edgeveil")
        # Its messages could hold an address of a server, and come for each try.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        name = "{}://{}/{}".format("kafkas" if secure else "kafka", where, self._topic)
        super(KafkaSink, self).__init__(name, outputs, manifest, dict(settings, **options))

    def _connect(self) -> None:
        producer = self._kafka.KafkaProducer
        limits = {"bootstrap_timeout_ms": int(TIMEOUT_S * 1e3), "delivery_timeout_ms": int(2 * TIMEOUT_S * 1e3)}
        known = {name: value for name, value in limits.items() if name in producer.DEFAULT_CONFIG}
        try:
            self._connection = producer(**self._options, **known)
        except self._kafka.errors.KafkaError as error:
            raise self._lost(error, "no broker answers ({})") from None
        self._arrive(self._put(FORMAT, json_bytes(self._format.document)))

    def _pump(self) -> None:
        pending: Deque[Tuple[Any, Any]] = collections.deque()
        while not self._stop.is_set():
            self._send_pending_status()
            entry = self._spool.take(0.0 if pending else 1.0)
            if entry is not None:
                pending.append((entry, self._put_record(entry.record())))
            while pending and (entry is None or len(pending) >= UNDER_WAY or pending[0][1].is_done):
                first, future = pending.popleft()
                self._arrive(future)
                self._spool.done(first)
                self._backoff.reset()
        self._send_pending_status()

    def _put_record(self, record: bytes) -> Any:
        if self._is_count(record):
            return self._put(COUNT, record, json.loads(record.decode("utf-8"))["id"])
        one = self._format.decode(record)
        kind, data = RECORD, record
        if self._form is not None:
            kind, data = self._form.media_type, self._form.encode(one)
        return self._put(kind, data, one.id, one.slot, one.tick_ns)

    def _put(self, kind: str, data: bytes, name: str = "", slot: int = 0, tick_ns: Optional[int] = None) -> Any:
        headers = [("content-type", kind.encode()), ("edgeveil-format", self._format.document["key"].encode())]
        headers += [("edgeveil-id", name.encode())] if name else []
        key = "{}/{}".format(self._key, slot).encode("utf-8")
        time_ms = None if tick_ns is None else tick_ns // 10**6
        try:
            return self._connection.send(self._topic, data, key=key, headers=headers, timestamp_ms=time_ms)
        except self._kafka.errors.KafkaError as error:
            raise self._lost(error) from None

    def _arrive(self, future: Any) -> None:
        try:
            future.get(timeout=2 * TIMEOUT_S)
        except self._kafka.errors.KafkaError as error:
            raise self._lost(error) from None

    def _lost(self, error: Exception, reason: str = "the broker does not take it ({})") -> ConnectionLost:
        name = type(error).__name__
        topic = "let the user write {} there, and make it".format(self._topic)
        return ConnectionLost(
            reason.format(name), topic if "Topic" in name else LOGIN if "Auth" in name else "see its own log"
        )

    def _send_status(self, document: Dict[str, Any]) -> None:
        self._arrive(self._put(STATUS, json_bytes(document)))

    def discard(self) -> None:
        """Send nothing more, not even what the library has buffered; forget what waits, on the disk too."""
        self._stop.set()
        producer = self._connection
        if producer is not None:
            producer.close(timeout=0)
        super(KafkaSink, self).discard()

    def _disconnect(self) -> None:
        producer, self._connection = self._connection, None
        if producer is not None:
            producer.close(timeout=0)  # what is in flight goes back to the spool

    def _socket_now(self) -> Any:
        return None  # the library's own; closing it ends all of them


def _login(options: Dict[str, Any], *, secure: bool, safe: bool) -> Dict[str, Any]:
    """The library's settings of the protocol and the login, of options, a file and the environment."""
    user = options.pop("user", None) or os.environ.get("EDGEVEIL_KAFKA_USERNAME")
    given = os.environ.get("EDGEVEIL_KAFKA_PASSWORD")
    password, mechanism = secret(options.pop("password_file", None), given, "the password for Kafka"), None
    if user or password:
        mechanism = options.get("sasl")
        if not user or not password or mechanism is None:
            raise BadInput("a login of Kafka needs user=NAME, password_file=FILE and sasl=" + MECHANISMS[-1])
    options.pop("sasl", None)
    if password and not safe:
        raise BadInput("the password would cross the network in the clear: use kafkas://")
    login: Dict[str, Any] = {"security_protocol": ("SASL_" if user else "") + ("SSL" if secure else "PLAINTEXT")}
    if user:
        login.update(sasl_mechanism=mechanism, sasl_plain_username=user, sasl_plain_password=password)
    return login
