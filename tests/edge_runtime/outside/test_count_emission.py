"""One report a period leaves, at the same tick and in as many bytes, whatever was counted, missing or spent."""

import json

import jsonschema
import pytest

from edgeveil.edge_runtime.errors import PrivacyStop
from edgeveil.edge_runtime.ipc.counters import Counters
from edgeveil.edge_runtime.ipc.record import MOST, Counted, Layout, RecordBroken, pack, unpack
from edgeveil.edge_runtime.manifest.count import CountNoise, CountRules, Line, Zone
from edgeveil.edge_runtime.outside.emission import GRACE_S, CountEmission
from edgeveil.edge_runtime.sinks.count_report import CountForm, CountReport
from edgeveil.edge_runtime.sinks.group import SinkGroup
from tests.support import network_receivers
from tests.support.checkout import ROOT

RULES = CountRules([Line("door", (0, 1), (9, 1))], [Zone("hall", [(0, 0), (0, 9), (9, 9)])], 10, [5.0], 16.0, None)
VALUES = [2, 1, 3, 0, 4]
SCHEMA = json.loads((ROOT / "docs/reference/schemas/count.schema.json").read_text())


class Sinks(SinkGroup):
    def __init__(self):
        super().__init__({})
        self.reports = []

    def _write_count(self, report):
        self.reports.append(report)


class Stream:
    """Ticks twice a second from 100 s on; ``budget`` records are paid for."""

    def __init__(self, budget=10**9):
        self.now, self.budget, self.sinks, self.counters = 100.0, budget, Sinks(), Counters()
        self.label_only_s = float("inf")  # from when on y alone leaves
        self.emission = CountEmission(
            RULES,
            self.sinks,
            self.counters,
            clock=lambda: self.now,
            take=self._take,
            spent=lambda: self.budget == 0,
            label_only=lambda: self.now >= self.label_only_s,
        )
        self.emission.begin()

    def _take(self, records):
        paid = self.budget >= records
        self.budget -= records if paid else 0
        return paid

    def until(self, second, coming=()):
        """Tick until then; ``coming`` are (second, Counted) from the inside. The seconds at which a report left."""
        left, coming = [], list(coming)
        while self.now < second:
            self.now += 0.5
            while coming and coming[0][0] <= self.now:
                self.emission.take(coming.pop(0)[1])
            before = len(self.sinks.reports)
            self.emission.tick(int(self.now * 2), None)
            left += [self.now] * (len(self.sinks.reports) - before)
        return left


def test_a_report_leaves_each_period_at_the_same_time_whatever_comes():
    good, none, late = Stream(), Stream(), Stream()
    times = good.until(140, [(110.2, Counted(10, False, VALUES)), (120.1, Counted(11, True, VALUES))])
    assert times == [111.5, 121.5, 131.5] == none.until(140)
    assert times == late.until(140, [(111.9, Counted(10, True, VALUES)), (115.0, Counted(10, True, VALUES))])
    assert [one.state for one in good.sinks.reports] == ["part", "counted", "missing"]
    assert [one.state for one in none.sinks.reports] == ["missing"] * 3
    assert [one.state for one in late.sinks.reports] == ["missing"] * 3
    assert late.counters.get("fault:count-late") == 2
    assert [one.values for one in good.sinks.reports] == [VALUES, VALUES, None]
    assert GRACE_S == 1.5


def test_a_period_of_the_future_does_not_leave():
    stream = Stream()
    stream.until(112, [(101.0, Counted(11, True, VALUES))])
    assert [one.state for one in stream.sinks.reports] == ["missing"]


def test_where_y_alone_leaves_a_period_is_missing_at_its_time_and_costs_nothing():
    stream = Stream(budget=5)
    stream.label_only_s = 115.0
    times = stream.until(140, [(110.0 + 10 * n, Counted(10 + n, True, VALUES)) for n in range(3)])
    assert times == [111.5, 121.5, 131.5]
    assert [(one.state, one.values) for one in stream.sinks.reports] == [("counted", VALUES), *[("missing", None)] * 2]
    assert stream.budget == 4


def test_a_spent_budget_is_said_and_no_number_leaves():
    stream = Stream(budget=1)
    stream.until(135, [(110.0 + 10 * n, Counted(10 + n, True, VALUES)) for n in range(3)])
    assert [(one.state, one.values) for one in stream.sinks.reports] == [
        ("counted", VALUES),
        ("spent", None),
        ("spent", None),
    ]


@pytest.mark.parametrize("noise", [None, CountNoise(500_000, 1, 10**7)])
def test_every_document_has_one_size_and_the_form_that_is_published(noise):
    form = CountForm(RULES._replace(noise=noise), "hall")
    reports = [
        CountReport(0, "counted", VALUES, 0, None),
        CountReport(10**9, "part", [-MOST] * 5, 10**15, 1795433640000000000),
        CountReport(7, "missing", None, 3, 5),
        CountReport(7, "spent", None, 3, 5),
    ]
    sent = [form.encode(report, b"12345678", number) for number, report in enumerate(reports)]
    assert {len(one) for one in sent} == {form.size}
    for one in sent:
        jsonschema.validate(json.loads(one), SCHEMA)
        assert form.mine(one)
    assert not CountForm(RULES, "other").mine(sent[0])
    first = json.loads(sent[0])
    assert first["lines"] == {"door": {"in": 2, "out": 1}}
    assert first["zones"] == {"hall": {"occupancy": 3, "dwell": [0, 4]}}
    assert json.loads(sent[2])["zones"]["hall"] == {"occupancy": None, "dwell": [None, None]}
    assert first["epsilon"] == (None if noise is None else 0.5)


def test_a_sink_takes_reports_and_nothing_else():
    with pytest.raises(PrivacyStop):
        Sinks().write_count({"lines": {}})
    with pytest.raises(PrivacyStop):
        Sinks().write_count(Counted(1, True, VALUES))


def test_in_the_pipe_counts_are_as_long_as_frames():
    layout = Layout(network_receivers.OUTPUTS, len(VALUES))
    frame = layout.pack(network_receivers.frame(3), 3)
    counts = pack(Counted(7, True, [10**12, -(10**12), 3, 0, 4]), layout.size)
    assert len(frame) == len(counts) == layout.size
    assert layout.unpack(counts) == Counted(7, True, [MOST, -MOST, 3, 0, 4])
    assert layout.unpack(frame).frame.index == 3
    small = Layout(network_receivers.OUTPUTS[1:], 20)
    assert len(small.pack(network_receivers.frame(3), 3)) == len(pack(Counted(7, False, [1] * 20), small.size))
    assert small.unpack(small.pack(network_receivers.frame(3), 3)).frame.outputs["label"] == 1
    for at in (0, 16, 20):
        with pytest.raises(RecordBroken):
            layout.unpack(counts[:at] + bytes([counts[at] ^ 1]) + counts[at + 1 :])
    with pytest.raises(RecordBroken):  # without counts in the manifest there are none
        Layout(network_receivers.OUTPUTS).unpack(counts[: Layout(network_receivers.OUTPUTS).size])
    with pytest.raises(ValueError, match="no counts"):  # nothing hides behind the numbers
        unpack(pack(Counted(7, True, [*VALUES, 99]), layout.size), len(VALUES))
