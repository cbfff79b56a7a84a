"""Means and errors from blocks are those of all rows at once."""

import numpy as np
import pytest

from edgeveil.trainer.ext.local.collect import ByReport, ByUnit


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
