"""What a sink sends at the ticks of a bundle, and for how long its spool holds while nothing arrives.

The plan of a flash shows it before a sink is opened; the service logs the same at its start.
"""

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple
from urllib.parse import parse_qsl

from edgeveil.edge_runtime.ipc.counters import Schedule
from edgeveil.edge_runtime.kinds import SINKS, fact_of
from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.sinks.forms import form_bytes
from edgeveil.edge_runtime.sinks.uri import Known, duration_s, size_bytes, without_secrets
from edgeveil.edge_runtime.sinks.wire import Format, Labels

OPTIONS: Known = {"spool": str, "spool_size": size_bytes, "ttl": duration_s}
IN_MEMORY_BYTES, ON_DISK_BYTES, TTL_S = 16 * 10**6, 256 * 10**6, 3600.0
_DAY_S = 86400


def spool_limits(options: Dict[str, Any]) -> Tuple[int, float]:
    """The most bytes that a spool with these options holds, and the seconds that a record is worth sending."""
    usual = ON_DISK_BYTES if options.get("spool") else IN_MEMORY_BYTES
    return options.get("spool_size") or usual, options.get("ttl") or TTL_S


class Traffic(NamedTuple):
    """Of one sink: bytes ``sent`` for a record, those that it has in the spool, and records a second.

    ``spool_bytes`` is None of a file; ``ttl_s`` are the seconds after which a record is dropped. ``more_per_s`` are
    bytes that come in each second besides.
    """

    sent_bytes: int
    record_bytes: int
    records_per_s: float
    spool_bytes: Optional[int]
    ttl_s: float
    more_per_s: float = 0.0

    @property
    def bytes_per_s(self) -> float:
        """What is sent in a second, before the headers of its protocols."""
        return self.sent_bytes * self.records_per_s + self.more_per_s

    @property
    def outage_s(self) -> float:
        """For how long nothing is lost while nothing arrives."""
        records = (self.spool_bytes or 0) // self.record_bytes
        return min(records / self.records_per_s, self.ttl_s)

    def text(self) -> str:
        """In words."""
        rate = "{:,} bytes a record, {:g} a second: {} a second, {} a day".format(
            self.sent_bytes,
            round(self.records_per_s, 3),
            _bytes_text(self.bytes_per_s),
            _bytes_text(self.bytes_per_s * _DAY_S),
        )
        if self.spool_bytes is None:
            return rate + ", before the form of its file"
        why = "until records are older than ttl" if self.outage_s == self.ttl_s else "until it is full"
        hours = "{:.3g} h".format(self.outage_s / 3600) if self.outage_s >= 36 else "{:.0f} s".format(self.outage_s)
        held = "its spool of {} covers an outage of {}, {}".format(_bytes_text(self.spool_bytes), hours, why)
        return "{}, before its protocol's headers; {}".format(rate, held)


def traffic(uri: str, outputs: List[Output], manifest: Optional[Manifest], plan: Schedule) -> Optional[Traffic]:
    """Of the sink that ``uri`` names, at the ticks of ``plan``; None of one that neither sends nor writes files.

    Raises ``BadInput`` for an option that is none.
    """
    form, labels = Format(outputs, manifest), Labels("", outputs, manifest)
    records_per_s = plan.slots / plan.tick_s
    if not fact_of(SINKS, uri, "network"):
        one = fact_of(SINKS, uri, "file") and not uri.endswith(":-")
        return Traffic(form.payload_bytes, form.payload_bytes, records_per_s, None, 0.0) if one else None
    given = dict(parse_qsl(uri.partition("?")[2]))
    options = {name: read(given[name]) for name, read in OPTIONS.items() if name in given}
    sends, keeps_s = fact_of(SINKS, uri, "sends"), fact_of(SINKS, uri, "keeps_s")
    if keeps_s is not None:
        options["ttl"] = keeps_s
    name = sends or given.get("as")
    sent = form.record_bytes if name is None else form_bytes(name, outputs, manifest, rgb=sends is not None)
    if fact_of(SINKS, uri, "label_topics"):
        sent += labels.message_bytes * len(labels.names)
    if fact_of(SINKS, uri, "one_slot"):
        records_per_s = 1 / plan.tick_s
    more_per_s = 0.0
    if fact_of(SINKS, uri, "label_topics") and "picture" in given:
        more_per_s = form_bytes("png", outputs, manifest) * plan.slots / duration_s(given["picture"])
    return Traffic(sent, form.record_bytes, records_per_s, *spool_limits(options), more_per_s=more_per_s)


def lines(sinks: Sequence[str], manifest: Manifest, plan: Schedule) -> Iterator[str]:
    """A line for each sink, without secrets."""
    for uri in sinks:
        one = traffic(uri, list(manifest.outputs), manifest, plan)
        if one is not None:
            yield "{}: {}".format(without_secrets(uri), one.text())


def _bytes_text(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return "{:.3g} {}".format(count / size, unit)
    return "{:.0f} bytes".format(count)
