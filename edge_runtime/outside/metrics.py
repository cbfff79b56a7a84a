"""The page /metrics: counters of both processes and of the sinks, gauges, and a histogram, for Prometheus.

The form is its text format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats): each metric has a line of HELP
and one of TYPE, and its samples stand together.
"""

import collections
import re
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Tuple

from edgeveil.edge_runtime.ipc.counters import drops, latencies
from edgeveil.edge_runtime.manifest.count import CountRules
from edgeveil.edge_runtime.outside.board_health import Gauge
from edgeveil.edge_runtime.sinks.count_report import STATES, CountReport

COUNTER, GAUGE, HISTOGRAM, UNTYPED = "counter", "gauge", "histogram", "untyped"
# Each metric by its name after edgeveil_: its type, and what it is.
METRICS: Dict[str, Tuple[str, str]] = {
    "frames_in_total": (COUNTER, "Frames that the source gave."),
    "rechecks_total": (COUNTER, "Self-tests of the perturber while it runs."),
    "source_opened_total": (COUNTER, "Times that the source was opened."),
    "frames_out_total": (COUNTER, "New sets that were emitted."),
    "ticks_total": (COUNTER, "Ticks, each with one record a slot."),
    "ticks_repeated_total": (COUNTER, "Ticks without a new set."),
    "ticks_missed_total": (COUNTER, "Ticks that came too late to be made up."),
    "inside_restarts_total": (COUNTER, "Times that the perturbing process was started again."),
    "sink_dropped_total": (COUNTER, "Records that a failing sink did not take."),
    "perturbing_seconds_total": (COUNTER, "Time spent on perturbing."),
    "dropped_total": (COUNTER, "Frames that were dropped, by reason."),
    "faults_total": (COUNTER, "Faults, by kind."),
    "latency_seconds": (HISTOGRAM, "Time from the source to the release of a set by the perturbing process."),
    "sink_put": (COUNTER, "Records that the sink took."),
    "sink_restored": (COUNTER, "Records of an earlier run that were in the spool."),
    "sink_done": (COUNTER, "Records that arrived."),
    "sink_full": (COUNTER, "Records dropped because the spool was full."),
    "sink_expired": (COUNTER, "Records dropped because they were too old."),
    "sink_lost": (COUNTER, "Records lost in another way."),
    "sink_unlike": (COUNTER, "Records of an earlier bundle that were not sent."),
    "sink_disk_errors": (COUNTER, "Failed writes of the spool."),
    "sink_connections": (COUNTER, "Connections that were made."),
    "sink_failures": (COUNTER, "Connections that failed or broke."),
    "sink_connected": (GAUGE, "Whether the sink is connected."),
    "sink_waiting": (GAUGE, "Records in the spool."),
    "sink_waiting_bytes": (GAUGE, "Bytes in the spool."),
    "ready": (GAUGE, "Whether new sets are emitted."),
    "degraded": (GAUGE, "Whether nothing new came for a period."),
    "spent": (GAUGE, "Whether the budget is spent."),
    "tick_seconds": (GAUGE, "Time from one tick to the next."),
    "fresh_age_seconds": (GAUGE, "Time since something new was emitted."),
    "identity_allowed": (GAUGE, "Whether the bundle was sealed with identity allowed."),
    "isolated": (GAUGE, "Whether the system keeps the perturbing process off the network."),
    "set_seconds": (GAUGE, "Time that perturbing the last set took."),
    "label_only": (GAUGE, "Whether y alone leaves, for the codes have shifted."),
    "shift": (GAUGE, "Distance of the codes from those of the audit, 0 to 1."),
    "shift_low": (GAUGE, "Lower end of the interval of that distance."),
    "shifted": (GAUGE, "Whether the codes are not those of the audit."),
    "aims_total": (COUNTER, "Times that a person saw edges of the raw picture, to aim the camera."),
    "aim_seconds_total": (COUNTER, "For how long, in all."),
    "trust_readable": (GAUGE, "Whether the trust can be read."),
    "index_age_seconds": (GAUGE, "Age of the update index."),
    "index_stale_seconds": (GAUGE, "Age of the update index that ends the service."),
    "audit_attack": (GAUGE, "Share that the best attack of the audit guesses."),
    "audit_chance": (GAUGE, "Share that a guess by the prior gets right."),
    "release_info": (GAUGE, "The release that runs, by its manifest's hash."),
    "board_temperature_celsius": (GAUGE, "Temperature of a zone."),
    "board_throttled": (GAUGE, "Whether the processor is throttled, now or since the boot."),
    "clock_synchronised": (GAUGE, "Whether the clock is synchronised; absent where that is unknown."),
    "disk_free_bytes": (GAUGE, "Free space of a file system."),
    "count_period_seconds": (GAUGE, "Length of a period of counting."),
    "count_state": (GAUGE, "State of the last period."),
    "count": (GAUGE, "What was counted in the last period, as it left."),
}
_OF_A_PLUGIN = (UNTYPED, "A number of a sink.")


class Sample(NamedTuple):
    """One line: the metric, the end of its name (of a histogram), its labels, and a value."""

    metric: str
    end: str
    labels: Dict[str, str]
    value: float


def samples(
    inside: Dict[str, int],
    outside: Dict[str, int],
    sinks: Dict[str, Dict[str, int]],
    gauges: Dict[str, float],
    board: Iterable[Gauge] = (),
) -> Iterator[Sample]:
    """Of the counters of both processes and of the sinks, of the gauges, and of the board."""
    for name in ("frames-in", "rechecks", "source-opened"):
        yield _sample(name + "-total", inside.get(name, 0))
    for name in ("frames-out", "ticks", "ticks-repeated", "ticks-missed", "inside-restarts", "sink-dropped"):
        yield _sample(name + "-total", outside.get(name, 0))
    yield _sample("perturbing-seconds-total", inside.get("busy-us", 0) / 1e6)
    for reason, count in sorted(all_drops(inside, outside).items()):
        yield _sample("dropped-total", count, reason=reason)
    for counts in (inside, outside):
        for name, count in sorted(counts.items()):
            if name.startswith("fault:"):
                yield _sample("faults-total", count, kind=name[len("fault:") :])
    yield from _histogram("latency_seconds", *latencies(inside))
    for sink, numbers in sorted(sinks.items()):
        for name, count in sorted(numbers.items()):
            yield _sample("sink-" + name, count, sink=sink)
    for name, value in sorted(gauges.items()):
        yield _sample(name, value)
    for gauge in board:
        yield _sample(gauge.name, gauge.value, **gauge.labels)


def count_samples(rules: CountRules, report: CountReport) -> Iterator[Sample]:
    """Of what was counted in the last period, as it left; no number where none did."""
    yield _sample("count-period-seconds", rules.period_s)
    for state in STATES:
        yield _sample("count-state", int(report.state == state), state=state)
    for (kind, name, what), value in zip(rules.names, report.values or ()):
        yield _sample("count", value, kind=kind, place=name, what=what)


def lines(found: Iterable[Sample]) -> Iterator[str]:
    """The page: the samples of each metric together, below its HELP and TYPE."""
    metrics: Dict[str, List[Sample]] = collections.OrderedDict()
    for sample in found:
        metrics.setdefault(sample.metric, []).append(sample)
    for metric, together in metrics.items():
        kind, what = METRICS.get(metric, _OF_A_PLUGIN)
        yield "# HELP edgeveil_{} {}".format(metric, what)
        yield "# TYPE edgeveil_{} {}".format(metric, kind)
        for _, end, labels, value in together:
            inner = ",".join('{}="{}"'.format(key, _escaped(text)) for key, text in sorted(labels.items()))
            yield "edgeveil_{}{}{} {:.10g}".format(metric, end, "{" + inner + "}" if inner else "", value)


def all_drops(inside: Dict[str, int], outside: Dict[str, int]) -> Dict[str, int]:
    """Frames dropped in either process, by reason."""
    together = collections.Counter(drops(inside))
    together.update(drops(outside))
    return dict(together)


def _histogram(metric: str, bounds_s: Iterable[float], counts: Iterable[int], sum_s: float) -> Iterator[Sample]:
    total = 0
    for bound_s, count in zip(bounds_s, counts):
        total += count
        label = "+Inf" if bound_s == float("inf") else "{:g}".format(bound_s)
        yield Sample(metric, "_bucket", {"le": label}, total)
    yield Sample(metric, "_sum", {}, sum_s)
    yield Sample(metric, "_count", {}, total)


def _sample(name: str, value: float, **labels: Any) -> Sample:
    return Sample(re.sub("[^a-z0-9_]", "_", name), "", labels, value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
