"""What is let through: the first report of a unit in a round, where a subject has all slots of its sender."""

import numpy as np
import pytest
from scipy import optimize

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sinks import wire
from edgeveil.trainer.ext.local.blocks import Block, Records
from edgeveil.trainer.ext.local.collect import ByReport, ByUnit, Gate, Seen, collect, keys, project
from edgeveil.trainer.ext.local.reporting import reporting
from tests.support import network_receivers
from tests.support.promised import collector_bundles


@pytest.mark.parametrize(
    ("unit", "counted"), [("release", [0, 2, 3, 4]), ("track", [0, 2, 3, 4]), ("subject", [0, 3, 4])]
)
def test_a_unit_counts_once_in_a_round(tmp_path, unit, counted):
    found = reporting(collector_bundles.opened(collector_bundles.made(tmp_path, "duchi-linf", unit=unit)))
    gate = Gate(found, slots=2)
    rows = np.array([[-1, 1, 1, 1], [1, -1, 1, 1], [1, 1, -1, 1], [1, 1, 1, -1], [1, 1, 1, 1]], np.int8)
    sender = np.array([b"a", b"a", b"a", b"a", b"b"], "S8")
    block = Block(rows, sender, np.arange(5).astype(np.uint64), np.uint16([0, 0, 1, 0, 0]), np.int64([7, 7, 7, 8, 7]))
    assert gate.passed(block).reports.tolist() == rows[counted].tolist()
    assert gate.refused == {"second of its round": 5 - len(counted)}
    again = Block(*(column[[0, 4]] for column in block))._replace(number=np.array([50, 60], np.uint64))
    assert len(gate.passed(again).reports) == 0
    assert gate.senders == {b"a": len(counted) - 1, b"b": 1}


class Once:
    """A feed of one block."""

    refused = 0

    def __init__(self, rows):
        self._rows = rows

    def blocks(self):
        n = len(self._rows)
        yield Block(
            np.array(self._rows, np.int8),
            np.array([b"%d" % i for i in range(n)], "S8"),
            np.arange(n).astype(np.uint64),
            np.zeros(n, np.uint16),
            np.arange(n, dtype=np.int64),
        )


def test_one_device_is_no_average(tmp_path):
    bundle = collector_bundles.opened(collector_bundles.made(tmp_path, "duchi-linf", unit="release"))
    with pytest.raises(BadInput, match="at least 2 devices were expected"):
        collect(bundle, reporting(bundle), [Once([[1, 1, 1, 1]])], "mean")
    assert collect(bundle, reporting(bundle), [Once([[1, 1, 1, 1], [1, -1, 1, 1]])], "mean")["reports"]["counted"] == 2


# Each key once, whatever the blocks are that it comes in.


def test_as_a_set_of_tuples_would():
    rng = np.random.default_rng(0)
    seen, known = Seen(), set()
    for size in (0, 1, 50, 1000, 3):
        sender = rng.integers(0, 5, size).astype(">u8").view("S8")
        number = rng.integers(0, 2**8, size).astype(np.uint64) << np.uint64(56)  # zero bytes at their ends
        wanted = []
        for pair in zip(sender.tolist(), number.tolist(), strict=True):
            wanted.append(pair not in known)
            known.add(pair)
        assert seen.first_seen(keys(sender, number)).tolist() == wanted


def test_columns_do_not_run_together():
    one = keys(np.array([1, 0], np.uint16), np.array([0, 1], np.int64))
    assert one[0] != one[1]
    assert len({*keys(np.arange(-70000, 70000)).tolist()}) == 140_000


# Many records at a time are what the runtime's own format says one by one.


def test_as_the_wire_decodes_them():
    manifest = network_receivers.MANIFEST
    form, records = wire.Format(manifest.outputs, manifest), Records(manifest, manifest.outputs[1])
    sent = [
        form.encode(network_receivers.frame(n, slot=n % 2), bytes([n]) + b"\0tream\0", 2**64 - 5 + n) for n in range(5)
    ]
    block = records.block(sent)
    for place, record in enumerate(sent):
        one = form.decode(record)
        assert block.reports[place] == one.outputs["label"]
        assert (block.round[place], block.slot[place]) == (one.index, one.slot)
        assert f"{block.sender[place].ljust(8, bytes(1)).hex()}-{block.number[place]}" == one.id
    assert block.reports.dtype == np.int64
    assert records.mine(sent[0])
    assert not records.mine(sent[0][:-1])
    assert not records.mine(b"EVF1abcd" + sent[0][8:])


# The nearest distribution, against a search over all of them.


@pytest.mark.parametrize(
    ("shares", "nearest"),
    [([0.2, 0.8], [0.2, 0.8]), ([1.4, 0.2], [1, 0]), ([0.7, 0.7], [0.5, 0.5]), ([-0.1, 0.5, 0.5], [0, 0.5, 0.5])],
)
def test_by_hand(shares, nearest):
    assert project(np.array(shares)) == pytest.approx(nearest)


def test_no_distribution_is_nearer():
    shares = np.random.default_rng(0).normal(0.2, 0.4, 5)
    found = optimize.minimize(
        lambda p: ((p - shares) ** 2).sum(),
        np.full(5, 0.2),
        bounds=[(0, 1)] * 5,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        tol=1e-12,
    )
    assert project(shares) == pytest.approx(found.x, abs=1e-5)


# Means and errors from blocks are those of all rows at once.


def test_blocks_of_reports_are_merged_without_loss():
    values = np.random.default_rng(0).normal(1e8, 1, (5000, 2))  # squares alone would lose all digits
    sums = ByReport(2)
    for part in np.split(values, [0, 1, 17, 3000]):
        sums.add(part, np.zeros(len(part), "S8"))
    assert sums.mean == pytest.approx(values.mean(axis=0), rel=1e-14)
    assert sums.standard_error() == pytest.approx(values.std(axis=0, ddof=1) / np.sqrt(5000), rel=1e-6)
    assert sums.units == sums.rows == 5000


def test_units_of_one_row_each_are_reports():
    values = np.random.default_rng(1).normal(size=(300, 3))
    by_report, by_unit = ByReport(3), ByUnit(3)
    for sums in (by_report, by_unit):
        sums.add(values, np.arange(300).astype("S8"))
    assert by_unit.mean == pytest.approx(by_report.mean)
    assert by_unit.standard_error() == pytest.approx(by_report.standard_error())


def test_a_unit_that_repeats_itself_is_one_unit():
    values = np.repeat(np.random.default_rng(2).normal(size=(150, 1)), 4, axis=0)
    units = np.repeat(np.arange(150), 4).astype("S8")
    repeated, once = ByUnit(1), ByReport(1)
    order = np.random.default_rng(3).permutation(600)
    for part in np.split(order, 5):
        repeated.add(values[part], units[part])
    once.add(values[::4], units[::4])
    assert repeated.units == 150
    assert repeated.rows == 600
    assert repeated.standard_error() == pytest.approx(once.standard_error())


@pytest.mark.parametrize(("units", "has"), [(99, False), (100, True)])
def test_fewer_than_a_hundred_units_have_no_interval(units, has):
    for sums in (ByReport(1), ByUnit(1)):
        sums.add(np.arange(units, dtype=float)[:, None], np.arange(units).astype("S8"))
        assert (sums.standard_error() is not None) == has
