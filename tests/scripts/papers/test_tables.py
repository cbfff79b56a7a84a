"""Public tables: rows, labels and codes of the published files, and values that no list has."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from scripts.papers import adult, kddcup
from scripts.papers.adult import Coded


def made(*colours):
    n = len(colours)
    numbers = np.array([[5.0, 20.0]] * n)
    return Coded(
        numbers, {"a": 10.0, "b": 10.0}, {"colour": np.array(colours)}, {"colour": ["red", "blue"]}, np.ones(n)
    )


def test_rows_are_coded_by_public_bounds_and_lists():
    rows = made("red", "blue").unit_rows()
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert np.allclose(rows * 1.5, [[0.5, 1, 0, 1], [0.5, 1, 1, 0]])  # blue sorts before red; 20 is over its bound


@pytest.mark.parametrize("strange", ["green", "zebra"])
def test_a_value_that_no_list_has_is_named_by_column_and_row_and_not_shown(strange):
    with pytest.raises(BadInput, match="one of blue, red in colour; row 1 has another") as said:
        made("red", strange).unit_rows()
    assert strange not in str(said.value)


@pytest.mark.data
def test_adult(data_folder):
    table = adult.load()
    assert (len(table), len(adult.load("adult.data.gz"))) == (45_222, 30_162)
    assert table.label.mean() == pytest.approx(0.2478, abs=1e-4)
    assert table.unit_rows().shape == (45_222, 105)  # one of them, Never-worked, in no complete row
    assert (table.numbers <= list(table.highest.values())).all()


@pytest.mark.nightly  # by day Adult, above
@pytest.mark.data
def test_kdd_cup_99(data_folder):
    lines = kddcup.lines()
    assert (len(lines), len(set(lines))) == (494_021, 145_586)
    table = kddcup.coded(lines[::100])
    assert np.allclose(np.linalg.norm(table.unit_rows(), axis=1), 1)
    assert table.label.mean() == pytest.approx(0.803, abs=0.02)


def test_without_the_file_it_says_where_to_get_it(monkeypatch):
    monkeypatch.delenv("EDGEVEIL_DATA", raising=False)
    for load in (adult.load, kddcup.lines):
        with pytest.raises(BadInput, match="EDGEVEIL_DATA"):
            load()
