"""/metrics is what Prometheus' own reader takes; its rules of order, which that reader does not hold, are held here."""

import itertools
import re

import pytest
from prometheus_client import parser

from edgeveil.edge_runtime.ipc.counters import LATENCY_MS, Counters, count_latency
from edgeveil.edge_runtime.manifest.count import CountRules, Line
from edgeveil.edge_runtime.outside import metrics
from edgeveil.edge_runtime.outside.board_health import Gauge
from edgeveil.edge_runtime.sinks.count_report import CountReport
from edgeveil.edge_runtime.sinks.spool import Spool

SECONDS = [0.004, 0.005, 0.0051, 0.09, 0.09, 1.5, 7.0]
RULES = CountRules([Line("do\\or", (0, 100), (424, 100))], [], 10, [5.0, 60.0], 16.0, None)


def page():
    """The lines of a service with all that there can be, a number of a sink from elsewhere and odd names too."""
    inside, outside = Counters(), Counters()
    inside.add("drop:late")
    outside.add("drop:newer-set")
    outside.add("fault:port")
    inside.add("fault:source")
    for seconds in SECONDS:
        count_latency(inside, seconds)
    spool = dict(Spool(most_bytes=10**6, ttl_s=1.0).counts(), connected=1, connections=2, failures=1)
    sinks = {'mqtt://broker/ha"ll\\': spool, "redis://a": {"lag": 7}, "tcp://b:1": spool}
    board = [Gauge("board-throttled", 0.0, {"since": now}) for now in ("now", "boot")]
    report = CountReport(1, "counted", [2, 1], 3, None)
    found = metrics.samples(inside.all(), outside.all(), sinks, {"ready": 1.0, "shift": 0.25}, board)
    return list(metrics.lines(itertools.chain(found, metrics.count_samples(RULES, report))))


def families():
    return {one.name: one for one in parser.text_string_to_metric_families("\n".join(page()) + "\n")}


def test_every_metric_has_its_help_and_type_before_its_samples_which_stand_together():
    kinds, seen, current = {}, set(), ""
    for line in page():
        meta = re.fullmatch(r"# (HELP|TYPE) ([a-z_]+) (.+)", line)
        if meta and meta[1] == "HELP":
            assert meta[2] not in seen, f"{meta[2]} comes twice"
            current = meta[2]
            seen.add(current)
        elif meta:
            assert meta[2] == current
            kinds[current] = meta[3]
        else:
            name = re.match(r"[a-z_]+", line)[0]
            ends = ("_bucket", "_sum", "_count") if kinds[current] == "histogram" else ("",)
            assert name in [current + end for end in ends], line
    assert set(kinds.values()) == {"counter", "gauge", "histogram", "untyped"}
    assert set(kinds) == seen


def test_what_is_counted_is_a_counter_and_the_reader_gets_every_label():
    found = families()
    assert found["edgeveil_dropped"].type == "counter"
    assert {one.labels["reason"] for one in found["edgeveil_dropped"].samples} == {"late", "newer-set"}
    assert found["edgeveil_sink_waiting"].type == "gauge"
    assert {one.labels["sink"] for one in found["edgeveil_sink_done"].samples} == {'mqtt://broker/ha"ll\\', "tcp://b:1"}
    assert found["edgeveil_sink_lag"].type == "unknown"
    assert {one.labels["place"] for one in found["edgeveil_count"].samples} == {"do\\or"}
    assert found["edgeveil_ready"].samples[0].value == 1.0


def test_the_latencies_are_a_histogram():
    found = families()["edgeveil_latency_seconds"]
    assert found.type == "histogram"
    buckets = [one for one in found.samples if one.name.endswith("_bucket")]
    bounds = [float(one.labels["le"]) for one in buckets]
    assert bounds == [*(bound / 1e3 for bound in LATENCY_MS), float("inf")]
    assert [one.value for one in buckets] == [sum(seconds <= bound for seconds in SECONDS) for bound in bounds]
    (total,) = [one.value for one in found.samples if one.name.endswith("_count")]
    (seconds,) = [one.value for one in found.samples if one.name.endswith("_sum")]
    assert (total, seconds) == (len(SECONDS), pytest.approx(sum(SECONDS), abs=1e-5))


def test_a_metric_without_a_type_is_one_of_a_plugin_alone():
    untyped = [line.split()[2] for line in page() if line.startswith("# TYPE") and line.endswith("untyped")]
    assert untyped == ["edgeveil_sink_lag"]
