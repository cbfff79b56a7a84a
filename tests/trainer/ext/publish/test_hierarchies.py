"""Hierarchies: their labels and losses, and what they refuse."""

from datetime import date

import numpy as np
import pytest
from pydantic import ValidationError

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext.publish.levels import Cuts, Dates, Prefixes, Ranges, Tree, encode

YEAR = {"kind": "dates", "first": date(2024, 1, 1), "last": date(2024, 12, 31)}


def labels(hierarchy, value):
    return [label for label, _ in hierarchy.rungs(value)]


def test_ranges_of_whole_numbers():
    ages = Ranges(kind="ranges", low=17, high=90, widths=[5, 10])
    assert labels(ages, "038") == ["38", "35..39", "30..39", "*"]
    assert [loss for _, loss in ages.rungs("38")] == pytest.approx([0, 4 / 73, 9 / 73, 1])
    assert labels(ages, "17")[1:3] == ["15..19", "10..19"]
    assert ages.rungs("17")[1][1] == pytest.approx(2 / 73)  # what lies below 17 is no loss
    assert [ages.rungs(one) for one in ("16", "91", "38.5", "", "nan", "old")] == [None] * 6


def test_ranges_of_measurements():
    weights = Ranges(kind="ranges", low=0, high=1, whole=False, widths=[0.1, 0.2])
    assert labels(weights, "0.25") == ["0.25", "[0.2,0.3)", "[0.2,0.4)", "*"]


def test_no_value_falls_between_two_levels_by_rounding():
    fine = Ranges(kind="ranges", low=0, high=10, whole=False, widths=[0.1, 0.3])
    for tenth in range(100):
        _, (label, _), (above, _), _ = fine.rungs(str(tenth / 10))
        low, high = (float(end) for end in above[1:-1].split(","))
        assert low - 1e-6 <= float(label[1:].split(",")[0]) < high


def test_cuts():
    education = Cuts(kind="cuts", low=1, high=16, cuts=[[9, 10, 13], [13]])
    assert labels(education, "9") == ["9", "9", "1..12", "*"]
    assert labels(education, "16") == ["16", "13..16", "13..16", "*"]
    assert labels(education, "1")[1] == "1..8"


def test_dates():
    assert labels(Dates(**YEAR, units=["month", "quarter", "year"]), "2024-05-17T08:30") == [
        "2024-05-17", "2024-05", "2024-Q2", "2024", "*",
    ]  # fmt: skip
    week = Dates(**YEAR, units=["week"])
    assert labels(week, "2024-12-31") == ["2024-12-31", "2025-W01", "*"]
    assert week.rungs("2023-12-31") is None


def test_prefixes_and_trees():
    assert labels(Prefixes(kind="prefixes", length=5, keep=[3, 1]), "75236") == ["75236", "752**", "7****", "*"]
    world = Tree(kind="tree", tree={"Europe": {"North": ["se", "no"]}, "Asia": {"East": ["jp"]}})
    assert world.rungs("se") == [("se", 0.0), ("North", 0.5), ("Europe", 0.5), ("*", 1.0)]
    assert world.rungs("jp")[1] == ("East", 0.0)
    assert world.rungs(" SE ") == world.rungs("se")
    assert world.rungs("sek") is None


@pytest.mark.parametrize(
    ("kind", "keys", "said"),
    [
        (Ranges, {"low": 0, "high": 9, "widths": [5, 12]}, "12 is none of 5"),
        (Ranges, {"low": 9, "high": 9, "widths": []}, "`low` below `high`"),
        (Cuts, {"low": 0, "high": 9, "cuts": [[3], [4]]}, "4 is not in it"),
        (Cuts, {"low": 0, "high": 9, "cuts": [[12]]}, "up to `high`"),
        (Dates, {**YEAR, "units": ["week", "month"]}, "months do not hold whole weeks"),
        (Dates, {**YEAR, "units": ["year", "month"]}, "in this order"),
        (Prefixes, {"length": 5, "keep": [1, 3]}, "numbers that fall"),
        (Tree, {"tree": {"a": ["x", "y"], "b": ["x"]}}, '"x" stands in two'),
        (Tree, {"tree": {"a": ["x"], "b": {"c": ["y"]}}}, "equally deep"),
        (Tree, {"tree": {"a": "x"}}, "lists of texts"),
    ],
)
def test_what_is_not_nested_is_refused(kind, keys, said):
    with pytest.raises(ValidationError, match=said):
        kind(**{"kind": kind.model_fields["kind"].annotation.__args__[0], **keys})


def test_a_value_that_is_not_covered_is_named_by_column_and_row_and_not_shown():
    tree = Tree(kind="tree", tree=["a", "b"])
    with pytest.raises(BadInput, match='Column "ward", row 3') as refused:
        encode("ward", ["a", "b", "secret", "other", "secret"], tree)
    assert "secret" not in str(refused.value)


def test_base_codes_follow_the_order_of_the_values():
    codes, levels = encode("age", ["30", "9", "030", "12"], Ranges(kind="ranges", low=0, high=99, widths=[10]))
    assert codes.tolist() == [2, 0, 2, 1]
    assert levels.labels[0] == ("9", "12", "30")
    assert np.diff(levels.positions).min() > 0
