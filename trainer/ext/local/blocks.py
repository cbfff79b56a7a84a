"""What every feed gives: blocks of reports, with what tells them apart."""

from __future__ import annotations

import contextlib
import queue
import sys
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TextIO

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.sinks import wire
from edgeveil.edge_runtime.sinks.broker import Broker
from edgeveil.edge_runtime.sinks.network_base import TIMEOUT_S
from edgeveil.trainer.datasets.readings import UNREADABLE, why
from edgeveil.trainer.ext.local.reporting import Reporting

ROWS = 1 << 15  # of a block, at most


class Block(NamedTuple):
    """n reports as they came: their place in the alphabet is not checked yet.

    ``sender`` (S8) is the stream of a device, or the number of a file; ``number`` (u8) counts within it, and a record
    that was sent twice has the same one. ``round`` (i8) is the tick of a stream, or the frame's number in a file.
    """

    reports: np.ndarray
    sender: np.ndarray
    number: np.ndarray
    slot: np.ndarray
    round: np.ndarray


class Feed(Protocol):
    """A place that reports come from. ``refused`` counts what was no report of this bundle."""

    refused: int

    def blocks(self) -> Generator[Block]:
        """All of them, in blocks of at most ``ROWS``."""
        ...


def of_file(reports: np.ndarray, file: int, first: int, slot: np.ndarray, rounds: np.ndarray) -> Block:
    """Rows ``first`` and on of the file with this number."""
    sender = np.full(len(reports), file, ">u8").view("S8")
    number = np.arange(first, first + len(reports), dtype=np.uint64)
    return Block(reports, sender, number, slot.astype(np.uint16), rounds.astype(np.int64))


# ``csv:-`` and ``csv:FILE``: a report a line, as the runtime's sink of the same name writes them.


class CsvFeed:
    """The lines of a file or, for ``-``, of stdin. A line that is no report is counted. Raises ``BadInput``."""

    def __init__(self, path: str, output: Output, main: bool, *, file: int) -> None:
        if not main or len(output.shape) > 1:
            raise BadInput(
                f"Lines hold the bundle's first output alone, and as a vector; {output.name} is not in them."
            )
        self.refused = 0
        self._path, self._file = path, file
        self._values = output.shape[0] if output.shape else 1
        self._shape, self._dtype = output.shape, np.dtype(output.dtype)

    def blocks(self) -> Generator[Block]:
        """As ``Feed``."""
        if self._path == "-":
            yield from self._of(sys.stdin)
            return
        try:
            with Path(self._path).open(encoding="ascii", errors="replace") as file:
                yield from self._of(file)
        except OSError as error:
            raise BadInput(f"A file of reports was expected at {self._path}: {error.strerror}.") from None

    def _of(self, file: TextIO) -> Generator[Block]:
        first = 0
        while lines := list(islice(file, ROWS)):
            reports = self._parsed(lines)
            self.refused += len(lines) - len(reports)
            index = np.arange(first, first + len(reports))
            yield of_file(reports, self._file, first, np.zeros(len(reports)), index)
            first += len(reports)

    def _parsed(self, lines: list[str]) -> np.ndarray:
        """Those lines that are reports, (n, *shape) in the dtype of the output."""
        try:
            values = self._numbers(lines)
        except ValueError:
            values = np.concatenate([self._line(line) for line in lines])
        if self._dtype.kind in "iu":
            limits = np.iinfo(self._dtype)
            values = values[((values >= limits.min) & (values <= limits.max)).all(axis=1)]
        return values.astype(self._dtype).reshape((-1, *self._shape))

    def _line(self, line: str) -> np.ndarray:
        try:
            return self._numbers([line])
        except ValueError:
            return np.empty((0, self._values), np.int64)

    def _numbers(self, lines: list[str]) -> np.ndarray:
        """All lines as numbers (n, values); raises ``ValueError`` where one is not so many."""
        kind = np.int64 if self._dtype.kind in "iu" else np.float64
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of lines that are empty, which are counted
            values = np.loadtxt(lines, kind, comments=None, delimiter=",", ndmin=2)
        if values.shape != (len(lines), self._values):
            raise ValueError
        return values


# The feeds that ``--from`` names.


def open_feeds(
    sources: Sequence[str], manifest: Manifest, reporting: Reporting, *, most: int | None, seconds: float | None
) -> list[Feed]:
    """A feed for each source, whose place is its number as a sender. Raises ``BadInput``."""
    return [_open(text, place, manifest, reporting, most, seconds) for place, text in enumerate(sources)]


def _open(
    text: str, place: int, manifest: Manifest, reporting: Reporting, most: int | None, seconds: float | None
) -> Feed:
    kind, _, rest = text.partition(":")
    main = manifest.outputs[0].name == reporting.output.name
    if kind == "npz" and rest:
        return NpzFeed(Path(rest), reporting.output, main, file=place)
    if kind == "csv" and rest:
        return CsvFeed(rest, reporting.output, main, file=place)
    if kind in ("mqtt", "mqtts"):
        if most is None and seconds is None:
            raise BadInput("A stream of reports has no end: give --until 1000 (reports) or --until 60s.")
        return MqttFeed(text, Records(manifest, reporting.output), seconds=seconds)
    raise BadInput(f"Reports were expected from mqtt://HOST/TOPIC, npz:FILE or csv:-; got {kind}:.")


# ``npz:FILE``: what the runtime's sink of the same name wrote, one file a device.


class NpzFeed:
    """The column of ``output``, which is called x where the bundle names it first, and ``index``.

    Frames of one index are those of its slots, in their order. Raises ``BadInput`` for a file that is not of this
    bundle.
    """

    def __init__(self, path: Path, output: Output, main: bool, *, file: int) -> None:
        self.refused = 0
        self._file = file
        column = "x" if main else output.name
        try:
            with np.load(path, allow_pickle=False) as archive:
                self._reports, self._index = archive[column], archive["index"]
        except UNREADABLE as error:
            raise BadInput(
                f"A file of reports with the arrays {column} and index was expected at {path}: {why(error)}. Name what "
                "edgeveil-edge run --sink npz:FILE wrote."
            ) from None
        wanted = (np.dtype(output.dtype), output.shape)
        if (self._reports.dtype, self._reports.shape[1:]) != wanted or self._reports.ndim == 0:
            got = f"{self._reports.dtype} {self._reports.shape[1:]}"
            raise BadInput(
                f"Reports of {wanted[0]} {wanted[1]} were expected in {path}; it has {got}: another bundle's."
            )
        if self._index.shape != (len(self._reports),) or self._index.dtype != np.int64:
            raise BadInput(f"An index int64 for each of the {len(self._reports)} reports was expected in {path}.")

    def blocks(self) -> Generator[Block]:
        """As ``Feed``."""
        slot = _turn(self._index)
        for first in range(0, len(self._reports), ROWS):
            part = slice(first, first + ROWS)
            yield of_file(self._reports[part], self._file, first, slot[part], self._index[part])


def _turn(index: np.ndarray) -> np.ndarray:
    """How many rows before it have the same index, for each row; as int64 (n,)."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(index)])
    turn = np.empty(len(index), np.int64)
    turn[order] = np.arange(len(index)) - np.repeat(starts, np.diff(np.append(starts, len(index))))
    return turn


# The runtime's network records, many at a time: ``edge_runtime.sinks.wire`` takes them one by one.


_HEAD = [
    ("magic", "S4"),
    ("key", "S4"),
    ("sender", "S8"),
    ("number", ">u8"),
    ("index", ">i8"),
    ("tick_ns", ">i8"),
    ("slot", ">u2"),
    ("zero", ">u2"),
    ("bytes", ">u4"),
]  # as wire.Format packs it


class Records:
    """Decodes the records of one bundle. ``mine`` tells those from others."""

    def __init__(self, manifest: Manifest, output: Output) -> None:
        self.format = wire.Format(manifest.outputs, manifest)
        self.mine = self.format.mine
        columns = [(f"output {one.name}", np.dtype(one.dtype).newbyteorder("<"), one.shape) for one in manifest.outputs]
        self._dtype = np.dtype([*_HEAD, *columns])
        self._column, self._native = f"output {output.name}", np.dtype(output.dtype)

    def block(self, records: list[bytes]) -> Block:
        """The reports of records that are ``mine``."""
        rows = np.frombuffer(b"".join(records), self._dtype)
        reports = rows[self._column].astype(self._native)
        return Block(
            reports, rows["sender"], rows["number"].astype(np.uint64), rows["slot"], rows["index"].astype(np.int64)
        )


# A connection to a broker that hears what devices send, and comes back by itself after it was lost.


NO_DEVICES = ("format", "about", "status", "count")  # what devices on TOPIC itself put there


class Subscription:
    """To the devices of ``uri``, TOPIC/DEVICE each, and with ``topic_too`` to one that publishes on TOPIC itself.

    ``take`` gets the device's name and payload of each message, in the connection's thread. Raises ``BadInput`` for a
    bad URI.
    """

    def __init__(self, uri: str, take: Callable[[str, bytes], None], *, topic_too: bool = False) -> None:
        self._broker, self._take = Broker(uri), take
        self.topic = self._broker.topic
        self._asked = [(f"{self.topic}/+", 1), *([(self.topic, 1)] if topic_too else [])]
        self._answers: queue.Queue[str] = queue.Queue()
        self.client = self._broker.client(self._broker.options.get("client_id") or "", reconnect=True)
        self.client.reconnect_delay_set(0.2, 5)
        self.client.on_connect, self.client.on_message = self._on_connect, self._on_message
        self.client.on_subscribe = lambda *_: self._answers.put("")

    def open(self) -> None:
        """Connect. Raises ``DeviceFailed`` where no broker answers, or one refuses."""
        try:
            self.client.connect(self._broker.host, self._broker.port, keepalive=30)
            self.client.loop_start()
            answer = self._answers.get(timeout=TIMEOUT_S)
        except (OSError, queue.Empty) as error:
            self.client.loop_stop()
            reason = getattr(error, "strerror", None) or "it does not answer"
            raise DeviceFailed(f"The broker at {self._broker.where} cannot be reached: {reason}.") from None
        if answer:
            self.close()
            raise DeviceFailed(f"The broker at {self._broker.where} refuses the connection: {answer}.")

    def close(self) -> None:
        """End the connection."""
        self.client.disconnect()
        self.client.loop_stop()

    # paho's thread calls these two.
    def _on_connect(self, client: Any, _data: Any, _flags: Any, code: Any, *_: Any) -> None:
        if code != 0:
            self._answers.put(str(code))
            return
        client.subscribe(self._asked)

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        device = message.topic[len(self.topic) + 1 :]
        if device not in NO_DEVICES:
            self._take(device, bytes(message.payload))


# ``mqtt://HOST/TOPIC`` and ``mqtts://``: records of every device that publishes to TOPIC or to TOPIC/DEVICE.
#
# The options are those of the runtime's sink of the same name: user, password_file, ca, cert, key, client_id.


_WAITING = 4 * ROWS  # records between the connection and the estimate; the broker keeps the others
_PAUSE_S = 0.2


class MqttFeed:
    """Ends after ``seconds``, or never where None. Raises ``BadInput``, ``DeviceFailed``."""

    def __init__(self, uri: str, records: Records, *, seconds: float | None) -> None:
        self.refused = 0
        self._records, self._seconds = records, seconds
        self._closed = False
        self._came: queue.Queue[bytes] = queue.Queue(_WAITING)
        self._subscription = Subscription(uri, self._take, topic_too=True)

    # The connection's thread calls this.
    def _take(self, _device: str, payload: bytes) -> None:
        while not self._closed:
            with contextlib.suppress(queue.Full):
                self._came.put(payload, timeout=_PAUSE_S)
                return

    def blocks(self) -> Generator[Block]:
        """As ``Feed``."""
        self._subscription.open()
        try:
            yield from self._until_the_end()
        finally:
            self._closed = True
            self._subscription.close()

    def _until_the_end(self) -> Generator[Block]:
        end = None if self._seconds is None else time.monotonic() + self._seconds
        while end is None or time.monotonic() < end:
            records = self._waiting()
            mine = [record for record in records if self._records.mine(record)]
            self.refused += len(records) - len(mine)
            if mine:
                yield self._records.block(mine)

    def _waiting(self) -> list[bytes]:
        """What came by now, up to a block; waits a moment for the first."""
        records = []
        try:
            records.append(self._came.get(timeout=_PAUSE_S))
            while len(records) < ROWS:
                records.append(self._came.get_nowait())
        except queue.Empty:
            pass
        return records
