"""``mqtt://HOST/TOPIC`` and ``mqtts://``: every record as one message with quality of service 1, through paho-mqtt.

A record is done when the broker has acknowledged it. With MQTT 5 it says whether it took it; one of 3.1.1 alone also
acknowledges what its access list denies, and no client can know that. Records in flight when a connection breaks are
sent again with the same id (``wire.Record.id``), so that receivers can count each frame once. Each connection has its
own client: only the spool keeps track of what has arrived.
"""

import collections
import contextlib
import hashlib
import select
import socket
import time
from typing import Any, Deque, Dict, List, Optional, Set, Tuple

from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.sinks.broker import Broker, checked_topic
from edgeveil.edge_runtime.sinks.forms import PngForm
from edgeveil.edge_runtime.sinks.network_base import LOGIN, OPTIONS, TIMEOUT_S, ConnectionLost, NetworkSink
from edgeveil.edge_runtime.sinks.uri import duration_s
from edgeveil.edge_runtime.sinks.wire import (
    Discovery,
    Labels,
    Record,
    about,
    json_bytes,
    picture_topic,
    update_document,
)

UNDER_WAY = 20  # most messages that wait for their acknowledgement
OTHERS = 8  # most of them that are no records: a broker may count those that it denies until it closes the connection
OLDER = "Unsupported protocol version"  # what a broker without MQTT 5 answers
_WRITE = "let the board's user write {0} and {0}/# in the broker's access list"
HEAR_S = 0.5  # how often the broker is heard where there is nothing to send
NEWS_S = 10.0  # older labels are in the record only


def _discovery(text: str) -> Optional[str]:
    return None if text == "off" else checked_topic(text)


class MqttSink(NetworkSink):
    """Publishes to TOPIC, and retained to TOPIC/format, TOPIC/about, TOPIC/status and TOPIC/shift; labels to
    TOPIC/label/NAME/SLOT, counts to TOPIC/count.

    With ``picture=10s`` the first record of a slot in each such period is sent to TOPIC/picture/SLOT too, as PNG. It is
    not retained: a privacy stop could not take it back.
    """

    schemes = ("mqtt", "mqtts")
    forms = ("mqtt://HOST[:1883]/TOPIC", "mqtts://HOST[:8883]/TOPIC")
    help = "a message with quality of service 1; `picture=10s`: a PNG of each slot in such periods too"
    needs = ("paho",)
    label_topics = True
    reads = ("password_file", "ca", "cert", "key")

    def __init__(self, uri: str, outputs: List[Output], manifest: Optional[Manifest], settings: Dict[str, Any]) -> None:
        self._broker = broker = Broker(uri, dict(OPTIONS, discovery=_discovery, picture=duration_s))
        self._paho, self._topic, options = broker.paho, broker.topic, broker.options
        # The same after a restart, so that the broker first ends the old connection and sends its last will.
        self._client_id = (
            options.get("client_id") or "edgeveil-" + hashlib.sha256(broker.path.encode()).hexdigest()[:12]
        )
        self._client: Any = None
        self._answer, self._answered = None, False  # type: Optional[str], bool
        self._acknowledged: Deque[Tuple[int, str]] = collections.deque()  # numbers, and why one was refused
        self._version = broker.newest
        self._most = self._takes = UNDER_WAY + 4  # messages that wait for an acknowledgement; those that a broker takes
        self._topics: Dict[int, str] = {}  # of messages that are no records, until they are acknowledged
        self._denied: Set[str] = set()  # topics of which that was said
        self._gone = False
        self._labels = Labels(self._topic, outputs, manifest)
        self._about = about(manifest, settings.get("audit"), settings.get("runs", {}))
        prefix, rules = options.get("discovery", "homeassistant"), manifest.counts if manifest else None
        period_s = options.pop("picture", None)
        self._pictures = None if period_s is None else PngForm(outputs, manifest)
        self._picture_ns, self._pictured = int((period_s or 0.0) * 1e9), {}  # type: int, Dict[int, int]
        known = (self._topic, prefix, self._labels, self._about, rules)
        self._discovery = Discovery(*known, pictures=self._pictures is not None) if prefix else None
        super(MqttSink, self).__init__(broker.name, outputs, manifest, dict(settings, **options))

    def _connect(self) -> None:
        self._open()
        if self._answer == OLDER and self._version == 5:
            self._disconnect()
            self._version = 4
            self._say("{}: the broker has no MQTT 5: what its access list denies counts as delivered".format(self.uri))
            self._open()
        if self._answer:
            raise ConnectionLost("the broker refuses the connection ({})".format(self._answer), LOGIN)
        if self._takes < self._most:  # paho can be told how many may wait before it connects
            self._most = self._takes
            self._disconnect()
            self._open()
        self._publish(self._topic + "/format", json_bytes(self._format.document), retain=True)
        self._publish(self._topic + "/about", json_bytes(self._about), retain=True)
        for topic, document in self._discovery.documents() if self._discovery else ():
            self._publish(topic, json_bytes(document), retain=True)
            self._settle()  # one that is denied may cost the connection; the next is spared it

    def _open(self) -> None:
        """Connect, and wait for the broker's answer."""
        self._gone = self._answered = False
        self._acknowledged.clear()
        self._topics.clear()
        self._client = client = self._new_client()
        client.connect(self._broker.host, self._broker.port, keepalive=30)
        with contextlib.suppress(AttributeError, OSError):  # a record's end must not wait for what was sent before it
            client.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end_s = time.monotonic() + TIMEOUT_S
        while not (self._answered or self._gone):
            if time.monotonic() > end_s or self._stop.is_set():
                raise ConnectionLost("the broker does not answer")
            self._exchange(client, 0.25)
        if not self._answered:
            cure = "name the port of an MQTT broker, with mqtts:// and cert= and key= where it wants these"
            raise ConnectionLost("the other side ends the connection before it answers", cure)

    def _new_client(self) -> Any:
        client = self._broker.client(self._client_id, reconnect=False, version=self._version)
        client.max_inflight_messages_set(self._most)
        client.will_set(self._topic + "/status", json_bytes({"state": "offline", "since_ns": None}), qos=1, retain=True)
        client.on_connect, client.on_disconnect = self._on_connect, self._on_disconnect
        client.on_publish = self._on_publish
        return client

    def _exchange(self, client: Any, wait_s: float) -> None:
        """Let paho read what has come and write what waits; it has no thread of its own, which would cost as much for
        each record as ours. Waits so long for either, and notes where the connection has ended."""
        connection = client.socket()
        if connection is None:
            self._gone = True
            return
        wait_s = 0.0 if getattr(connection, "pending", lambda: 0)() else wait_s  # TLS has bytes that it has not given
        try:
            sending = [connection] if client.want_write() else []
            can_read, can_write, _ = select.select([connection], sending, [], wait_s)
        except (OSError, ValueError):  # it was closed meanwhile
            self._gone = True
            return
        if can_read:
            client.loop_read()
        if can_write:
            client.loop_write()
        client.loop_misc()

    # paho calls these from ``_exchange``.
    def _on_connect(self, client: Any, _userdata: Any, _flags: Any, code: Any, properties: Any = None) -> None:
        if client is self._client:
            self._answer = None if code == 0 else str(code)
            self._takes = getattr(properties, "ReceiveMaximum", UNDER_WAY + 4)
            self._answered = True

    def _on_disconnect(self, client: Any, *_: Any) -> None:
        if client is self._client:
            self._gone = True

    def _on_publish(self, client: Any, _userdata: Any, number: int, code: Any = None, *_: Any) -> None:
        if client is self._client:
            self._acknowledged.append((number, str(code) if getattr(code, "is_failure", False) else ""))

    def _hear(self, pending: Dict[int, Any], wait_s: float = 0.0) -> None:
        """Take note of what was acknowledged. Raises ``ConnectionLost``, also for a record that was refused."""
        self._exchange(self._client, wait_s)
        while self._acknowledged:
            number, refusal = self._acknowledged.popleft()
            entry, topic = pending.pop(number, None), self._topics.pop(number, "")
            if entry is not None and refusal:
                refuses = "the broker refuses records for {} ({})".format(self._topic, refusal)
                raise ConnectionLost(refuses, _WRITE.format(self._topic))
            if entry is not None:
                self._spool.done(entry)
                self._backoff.reset()
            elif refusal and topic not in self._denied:
                self._denied.add(topic)
                self._backoff.reset()  # the next connection is spared it
                refuses = "the broker refuses what is sent to {} ({})".format(topic, refusal)
                self._say("{}: {}; {}".format(self.uri, refuses, _WRITE.format(self._topic)))
        if self._gone:  # looked at last: a broker may say why, and then close
            twice = " again. If it runs, another client may have the client_id {}, as a board with the same topic"
            raise ConnectionLost("the broker has gone" + twice.format(self._client_id) * (self._connections > 1))

    def _settle(self) -> None:
        """Wait for the acknowledgements of what is no record. Raises ``ConnectionLost``."""
        end = time.monotonic() + TIMEOUT_S
        while self._topics and not self._stop.is_set():
            self._hear({}, 0.25)
            if time.monotonic() > end:
                raise ConnectionLost("the broker does not answer")

    def _pump(self) -> None:
        pending: Dict[int, Any] = {}
        self._send_pending_status()
        self._settle()
        while not self._stop.is_set():
            self._send_pending_status()
            self._hear(pending)
            busy = self._client.want_write() or (pending and self._hurry.is_set())
            if busy or len(pending) >= UNDER_WAY or len(self._topics) >= OTHERS:
                self._hear(pending, 0.05)
                continue
            # What is acknowledged meanwhile is heard with the next record: to wake for it costs as much as a record.
            entry = self._spool.take(HEAR_S)
            if entry is not None:
                record = entry.record()
                counts = self._is_count(record)
                number = self._publish(self._topic + ("/count" if counts else ""), record)
                self._topics.pop(number, None)
                pending[number] = entry
                has_news = self._labels.names or self._pictures is not None
                if not counts and has_news and self._spool.age_s(entry) < NEWS_S:
                    self._publish_news(self._format.decode(record))
        self._send_pending_status()

    def _publish_news(self, record: Record) -> None:
        """The labels of a record, and a picture where the first of a period is due."""
        for topic, message in self._labels.events(record):
            self._publish(topic, message)
        if self._pictures is None:
            return
        # By the time of the tick: when a picture leaves depends on nothing that it shows.
        period = record.index if record.tick_ns is None else record.tick_ns // self._picture_ns
        if self._pictured.get(record.slot) != period:
            self._pictured[record.slot] = period
            self._publish(picture_topic(self._topic, record.slot), self._pictures.encode(record))

    def _publish(self, topic: str, data: bytes, *, retain: bool = False) -> int:
        if topic in self._denied:
            return 0
        sent = self._client.publish(topic, data, qos=1, retain=retain)
        if sent.rc not in (self._paho.MQTT_ERR_SUCCESS, self._paho.MQTT_ERR_NO_CONN, self._paho.MQTT_ERR_AGAIN):
            raise ConnectionLost("the broker takes no message ({})".format(self._paho.error_string(sent.rc)))
        self._topics[sent.mid] = topic
        return sent.mid

    def _send_status(self, document: Dict[str, Any]) -> None:
        self._publish(self._topic + "/status", json_bytes(document), retain=True)

    def _send_shift(self, document: Dict[str, Any]) -> None:
        self._publish(self._topic + "/shift", json_bytes(document), retain=True)

    def _send_releases(self, running: str, offered: str) -> None:
        document = update_document(self._about["bundle"], running, offered)
        self._publish(self._topic + "/update", json_bytes(document), retain=True)

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        if self._stop.is_set() and not self._cut and client.is_connected():
            # An orderly end sends no last will: publish it, and wait a moment for it.
            offline = client.publish(
                self._topic + "/status", json_bytes({"state": "offline", "since_ns": None}), 1, True
            )
            for _ in range(50):
                self._exchange(client, 0.02)
                if self._gone or offline.is_published():
                    break
        client.disconnect()
        left = client.socket()
        if left is not None:  # it could not send that it ends
            left.close()

    def _socket_now(self) -> Any:
        client = self._client
        return client.socket() if client is not None else None
