"""The base of network sinks: a thread empties a spool, and reconnects when the connection breaks.

The loop never waits for the network.
"""

import contextlib
import re
import socket
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from edgeveil.edge_runtime.ipc.pipes import Backoff
from edgeveil.edge_runtime.machine import clock_word
from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.sinks import wire
from edgeveil.edge_runtime.sinks.base import Delivery, Sink
from edgeveil.edge_runtime.sinks.count_report import CountForm, CountReport
from edgeveil.edge_runtime.sinks.spool import Spool
from edgeveil.edge_runtime.sinks.traffic import OPTIONS, spool_limits

__all__ = ["LOGIN", "NOTHING_YET", "OPTIONS", "TIMEOUT_S", "ConnectionLost", "NetworkSink", "explain"]

DROPPED = {
    "full": "the spool is full (spool_size)",
    "expired": "they waited too long (ttl)",
    "lost": "the receiver refused them, or the disk lost them",
}
NOTHING_YET = "nothing has arrived there yet"
LOGIN = "check user= and password_file= (or cert= and key=) against the receiver's own list of users"
_CERTIFICATE = "CertificateError|SSLCertVerificationError|SSLError"
# Of an error by its class and words of its text: the reason ({} is that text), and what to do.
_KNOWN = (
    ("SSL.*", "alert", "it refuses this board's certificate ({})", "give one that it takes: cert= and key="),
    (_CERTIFICATE, "match", "its certificate is for another name ({})", "write the name that the certificate has"),
    (_CERTIFICATE, "expired|not yet valid", "its certificate is refused ({})", "renew it, or set the board's clock"),
    (_CERTIFICATE, "verify failed|certificate", "its certificate is refused ({})", "name its authority: ca=FILE"),
    ("SSL.*", "", "TLS fails ({})", "name its port for TLS"),
    ("gaierror", "", "its name is not found ({})", "write its address, or have the board's DNS know it"),
    ("ConnectionRefusedError", "", "{}", "start the receiver there, or name its host and port"),
    ("Connection(Reset|Aborted)Error|BrokenPipeError", "", "the far side ends the connection ({})", "see its own log"),
    (".*", "timed out|unreachable|no route", "{}", "let the board reach that host and port"),
)
DRAIN_S = 2.0  # what close() waits for the network; a service has five seconds in all
TIMEOUT_S = 10.0


class ConnectionLost(Exception):
    """The far side cannot be reached or has closed the connection. The message says which, and holds no secret.

    ``cure`` is what to do; empty where nothing but the far side knows.
    """

    def __init__(self, text: str, cure: str = "") -> None:
        super(ConnectionLost, self).__init__(text)
        self.cure = cure


def explain(name: str, text: str) -> Tuple[str, str]:
    """Why a receiver does not take records, from an error's class and text, and what to do; either may be empty."""
    text = re.sub(r"^\[[^]]*\] | \(_ssl\.c:\d+\)\.?$|\.$", "", text)
    text = text[:1].lower() + text[1:] if text[1:2].islower() else text
    for classes, words, reason, cure in _KNOWN:
        if re.fullmatch(classes, name) and re.search(words, text):
            return reason.format(text), cure
    return text, ""


def _status(state: str, tick_ns: Optional[int]) -> Dict[str, Any]:
    """What consumers are sent of the stream; ``clock`` is whether its times can be relied on."""
    return {"state": state, "since_ns": tick_ns, "clock": clock_word()}


class NetworkSink(Sink):
    """A sink whose frames go through a spool.

    A subclass gives ``_connect``, ``_send`` and ``_send_status``, and calls this constructor last: it starts the
    thread. ``_connect`` sets ``_connection``, a socket or what has one as ``sock``; else the subclass also gives
    ``_disconnect`` and ``_socket_now``. ``uri`` is the address without secrets, for messages. ``settings`` are the
    options of the URI.
    """

    network = True
    writes = ("spool",)
    live = True
    _connection: Any = None
    _refusal = "the receiver refuses its records"

    def __init__(self, uri: str, outputs: List[Output], manifest: Optional[Manifest], settings: Dict[str, Any]) -> None:
        self.uri = uri
        self._format = wire.Format(outputs, manifest)
        rules = None if manifest is None else manifest.counts
        self._counts = None if rules is None or manifest is None else CountForm(rules, manifest.name)
        self._say: Callable[[str], None] = settings.get("say") or _note
        folder = settings.get("spool")
        self._lasts = folder is not None
        most_bytes, ttl_s = spool_limits(settings)
        self._spool = Spool(
            most_bytes=most_bytes,
            ttl_s=ttl_s,
            folder=folder,
            accept=lambda record: self._format.mine(record) or self._is_count(record),
            say=self._say,
        )
        self._backoff = Backoff(**settings.get("backoff", {}))
        self._hurry = threading.Event()
        self._stop, self._connected, self._connections, self._failures = threading.Event(), False, 0, 0
        self._pending_status: Optional[Dict[str, Any]] = _status("running", None)
        self._state = self._pending_status
        self._pending_shift: Optional[Dict[str, Any]] = None
        self._releases: Optional[Tuple[str, str]] = None
        self._pending_releases: Optional[Tuple[str, str]] = None
        self._cut = self._failing = False
        self._problem, self._done_then = NOTHING_YET, self._spool.count("done")
        self._thread = threading.Thread(target=self._work, name="sink " + uri, daemon=True)
        self._thread.start()

    def _write(self, frame: Any) -> None:
        self._spool.put(self._format.encode(frame, self._spool.stream, self._spool.next_number))

    def _write_count(self, report: CountReport) -> None:
        if self._counts is not None:
            self._spool.put(self._counts.encode(report, self._spool.stream, self._spool.next_number))

    def _is_count(self, record: bytes) -> bool:
        return self._counts is not None and self._counts.mine(record)

    def announce(self, state: str, tick_ns: Optional[int]) -> None:
        """Send the state as soon as there is a connection; only the last one counts."""
        self._state = self._pending_status = _status(state, tick_ns)
        self._spool.wake()

    def shift(self, document: Dict[str, Any]) -> None:
        """Send the shift as soon as there is a connection; only the last one counts."""
        self._pending_shift = document
        self._spool.wake()

    def releases(self, running: str, offered: str) -> None:
        """Send them as soon as there is a connection; only the last ones count."""
        self._releases = self._pending_releases = (running, offered)
        self._spool.wake()

    def counts(self) -> Dict[str, int]:
        """The spool's counts, and ``connected`` (0 or 1), ``connections`` and ``failures`` so far."""
        return dict(
            self._spool.counts(), connected=int(self._connected), connections=self._connections, failures=self._failures
        )

    def problem(self) -> str:
        """See ``Sink``: why the last connection ended, until a record arrives."""
        return self._problem if self._spool.count("done") == self._done_then else ""

    def _note_problem(self, problem: str) -> None:
        self._problem = "".join(c if c.isprintable() else "?" for c in problem)
        self._done_then = self._spool.count("done")

    def dropped(self) -> Dict[str, int]:
        """See ``Sink``."""
        return {why: self._spool.count(what) for what, why in DROPPED.items()}

    def delivery(self) -> Delivery:
        """What arrived, those of an earlier run too; what waits in memory is lost with the process."""
        counts = self._spool.counts()
        waiting = counts["waiting"] if self._lasts else 0
        lost = sum(counts[name] for name in ("full", "expired", "lost", "waiting"))
        return Delivery(counts["done"], waiting, lost - waiting)

    def close(self) -> None:
        """Send what waits for up to ``DRAIN_S``; the rest stays in a spool on the disk, or is lost and counted."""
        end, failures = time.monotonic() + DRAIN_S, self._failures
        # Try once more now to reach a far side that is down, and hear what was acknowledged.
        self._hurry.set()
        self._spool.wake()
        while not self._spool.wait_empty(0.05) and time.monotonic() < end and self._failures == failures:
            pass
        self._end()
        self._spool.close()
        lost = self._spool.counts()["lost"]
        if lost:
            self._say("{}: {} frames never arrived".format(self.uri, lost))

    def discard(self) -> None:
        """Send nothing more, not even what a library has buffered; forget what waits, on the disk too."""
        self._stop.set()
        self._cut = True
        connection = self._socket_now()
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._spool.discard()
        self._end()

    def _end(self) -> None:
        self._stop.set()
        self._hurry.set()
        self._spool.wake()
        if self._thread.is_alive():
            self._thread.join(0.7)

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                self._connect()
                self._connected, self._pending_status = True, self._state
                self._pending_releases = self._releases
                self._connections += 1
                if self._failing:
                    self._say("{}: connected{}".format(self.uri, " again" if self._connections > 1 else ""))
                    self._failing = False
                self._pump()
            except Exception as error:
                self._failures += 1
                problem = _reason(error)
                self._note_problem(problem)
                if not self._failing and not self._stop.is_set():
                    self._say("{}: {}. Frames wait, and the connection is tried again.".format(self.uri, problem))
                    self._failing = True
            self._connected = False
            with contextlib.suppress(Exception):
                self._disconnect()
            self._spool.give_back()
            if not self._stop.is_set():
                self._hurry.wait(self._backoff.next_s())

    def _pump(self) -> None:
        while not self._stop.is_set():
            self._send_pending_status()
            entry = self._spool.take(1.0)
            if entry is None:
                self._check()
                continue
            if self._send(entry.record()):
                self._spool.done(entry)
            else:
                self._spool.refused(entry)
                self._note_problem(self._refusal + "; see its own log")
            self._backoff.reset()
        self._send_pending_status()

    def _send_pending_status(self) -> None:
        news, self._pending_status = self._pending_status, None
        if news is not None:
            self._send_status(news)
        shift, self._pending_shift = self._pending_shift, None
        if shift is not None:
            self._send_shift(shift)
        releases, self._pending_releases = self._pending_releases, None
        if releases is not None:
            self._send_releases(*releases)

    def _connect(self) -> None:
        raise NotImplementedError

    def _check(self) -> None:
        """Called while there is nothing to send. Raises ``ConnectionLost`` where the far side has gone."""

    def _send(self, record: bytes) -> bool:
        """Deliver one record; False if it will never be accepted. Raises ``OSError`` or ``ConnectionLost``."""
        raise NotImplementedError

    def _send_status(self, document: Dict[str, Any]) -> None:
        raise NotImplementedError

    def _send_shift(self, document: Dict[str, Any]) -> None:
        """Tell the far side the latest shift, where its protocol has a place for that."""

    def _send_releases(self, running: str, offered: str) -> None:
        """Tell the far side which release runs and which is offered, where its protocol has a place for that."""

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _socket_now(self) -> Any:
        """The socket of the connection, where there is one."""
        connection = self._connection
        return getattr(connection, "sock", connection)


def _note(text: str) -> None:
    sys.stderr.write("note: {}\n".format(text))


def _reason(error: BaseException) -> str:
    # Only the type of an unexpected error: its text could hold anything.
    name = type(error).__name__
    if isinstance(error, ConnectionLost):
        reason, cure = str(error), error.cure
    elif isinstance(error, OSError) or name == "CertificateError":  # which is no OSError in Python 3.6
        said = [getattr(error, part, None) for part in ("verify_message", "strerror")]
        reason, cure = explain(name, next((str(one) for one in said if one), str(error)))
    else:
        reason, cure = "", ""
    reason = reason or name
    return "; ".join(filter(None, (reason[:1].lower() + reason[1:].rstrip("."), cure)))
