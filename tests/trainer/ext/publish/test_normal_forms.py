"""Criteria over what values are and not how they are spelled, empty cells, ranges of a plan, and what a card says."""

import datetime
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.columns import read_cells
from edgeveil.trainer.ext.publish.actions import Histogram, released
from edgeveil.trainer.ext.publish.levels import Cuts, Ranges, normal
from edgeveil.trainer.ext.publish.master_key import MasterKey
from edgeveil.trainer.ext.publish.plan import Plan
from edgeveil.trainer.ext.publish.publication import draft, publish
from edgeveil.trainer.report.card_markdown import render, text

HEAD = '[anonymity]\nk = {k}\nlink = "rows"\nsuppress = {suppress}\nmethod = "{method}"\n'
AGE = '[columns.age]\naction = "quasi"\nhierarchy = { kind = "ranges", low = 0, high = 99, widths = [50] }\n'


def published(folder, rows, plan, *, names="age,illness", k=2, suppress=0, method="incognito", suffix=".csv"):
    """The statement and the columns of a published table of these lines."""
    (folder / "t.csv").write_text("\n".join([names, *rows]) + "\n")
    (folder / "plan.toml").write_text(HEAD.format(k=k, suppress=suppress, method=method) + plan)
    out = folder / f"out{len(list(folder.iterdir()))}"
    document = publish(folder / "t.csv", Plan.read(folder / "plan.toml"), MasterKey(bytes(64)), out, recipient="r")
    return document, read_cells("csv", out / "table.csv")


SPELLINGS = [
    ["Flu", "flu", "FLU", " flu "],
    ["\ufb02u", "flu", "f\u200blu", "\uff26\uff4c\uff55"],
    ["a b", "a  b", "A\u00a0B"],
]
SPELLINGS += [["1", "1.0", "01", "1e0"], ["straße", "STRASSE"], ["e\u0301", "\u00e9"]]


@pytest.mark.parametrize("words", [*SPELLINGS, ["flu", ""], ["Flu", "flu", "-", "NA"]])
def test_spelling_and_emptiness_are_not_diversity(tmp_path, words):
    rows = [f"30,{words[at % len(words)]}" for at in range(8)]
    for asked in ("distinct_l = 2", "entropy_l = 1.5"):
        plan = f'{AGE}[columns.illness]\naction = "sensitive"\nmissing = ["NA", "-"]\n{asked}\n'
        with pytest.raises(BadInput, match=r"fewer different values than the l|No generalisation meets"):
            published(tmp_path, rows, plan)
    both, _ = published(tmp_path, [*rows, "31,cold", "32,cold", "33,cold", "34,cold"], plan)
    assert both["found"]["illness.entropy_l"] <= 2
    assert "l counts spellings once" in both["columns"]["illness"]


@pytest.mark.parametrize("method", ["incognito", "mondrian"])
def test_empty_cells_are_a_value_of_l_where_the_plan_says_so(tmp_path, method):
    rows = [f"{at},{['flu', ''][at % 2]}" for at in range(8)]
    plan = f'{AGE}[columns.illness]\naction = "sensitive"\ndistinct_l = 2\ncount_missing = true\n'
    document, _ = published(tmp_path, rows, plan, method=method)
    assert document["found"]["illness.distinct_l"] == 2
    assert "and empty cells" in document["columns"]["illness"]


TREE = 'hierarchy = { kind = "tree", tree = { ill = ["flu", "cold"], well = ["none"] } }\n'


@pytest.mark.parametrize("distance", ["equal", "ordered", "hierarchical"])
def test_closeness_of_spellings_and_empty_cells_is_the_same_for_publisher_and_reader(tmp_path, distance):
    rows = [f"{at},{['Flu', 'flu', 'COLD', 'none', '', 'cold '][at % 6]}" for at in range(36)]
    plan = f'{AGE}[columns.illness]\naction = "sensitive"\nt = 0.2\ndistinct_l = 3\ndistance = "{distance}"\n{TREE}'
    document, _ = published(tmp_path, rows, plan)  # it raises where the two find something else
    assert document["found"]["illness.distinct_l"] == 3


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=6), st.sampled_from([str.upper, str.title, lambda one: f"  {one}\u00a0", lambda one: one]))
def test_a_normal_form_is_one_of_itself_and_of_its_spellings(value, spell):
    assert normal(normal(value)) == normal(value)
    if value.isascii():
        assert normal(spell(value)) == normal(value)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**30), st.integers(0, 10**30), st.integers(0, 3))
def test_numbers_are_one_where_they_are_equal_and_only_there(one, other, zeros):
    assert (normal(str(one)) == normal(str(other))) == (one == other)
    assert normal(f"{'0' * zeros}{one}.{'0' * zeros}") == normal(str(one))


DATES = (
    'hierarchy = { kind = "dates", first = 2025-01-01, last = 2025-12-31, units = ["month"], formats = [FORMATS] }\n'
)
ZIP = '[columns.zip]\naction = "quasi"\nhierarchy = { kind = "prefixes", length = 5, keep = [2] }\nmissing = ["?"]\n'


@pytest.mark.parametrize("method", ["incognito", "mondrian"])
@pytest.mark.parametrize("form", ["%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d %B %Y"])
def test_dates_in_the_plans_formats_and_missing_codes_are_generalised(tmp_path, form, method):
    days = [datetime.date(2025, 1 + at // 8, 1 + at % 3) for at in range(16)]
    rows = [f"{day:{form}},{['10115', '10117', '', '?'][at % 4]}" for at, day in enumerate(days)]
    plan = f'[columns.day]\naction = "quasi"\n{DATES.replace("FORMATS", repr(form))}{ZIP}'
    document, found = published(tmp_path, rows, plan, names="day,zip", method=method)
    assert document["found"]["k"] >= 2
    assert all(label == "*" or label[:5] == "2025-" for label in found["day"])
    assert set(found["zip"]) <= {"", "*", "10***", "10115", "10117"}
    assert method == "mondrian" or "" in found["zip"]
    with pytest.raises(BadInput, match=r"row 1: its hierarchy of dates does not cover .*`formats`"):
        published(tmp_path, rows, plan.replace(f"{form!r}", ""), names="day,zip")


@pytest.mark.parametrize("method", ["incognito", "mondrian"])
def test_missing_numbers_are_a_leaf_of_their_own(tmp_path, method):
    rows = [f"{['', '10', '20', '95'][at % 4]},x" for at in range(16)]
    for k, label in ((4, ""), (6, "*")):  # four cells are empty: six people alike are no range that begins with them
        document, found = published(tmp_path, rows, f'{AGE}[columns.illness]\naction = "target"\n', method=method, k=k)
        assert document["found"]["k"] >= k
        assert label in found["age"]
        assert not any(label.startswith("..") for label in found["age"])


REFUSED = {
    '[statistics.s]\nkind = "count"\nepsilon = 1e-15\n': "epsilon",
    '[statistics.s]\nkind = "count"\nepsilon = 1e7\n': "epsilon",
    '[statistics.s]\nkind = "count"\nepsilon = 1\nrows_each = 1000000000000\n': "rows_each",
    '[statistics.s]\nkind = "mean"\ncolumn = "age"\nepsilon = 1\nlow = 0\nhigh = 1e308\n': "high",
    '[statistics.s]\nkind = "histogram"\ncolumn = "age"\nepsilon = 1\nedges = [-1e300, 0]\n': "edges",
    "[columns.b]\naction = 'quasi'\nhierarchy = { kind = 'ranges', low = 0, high = 1e308, widths = [] }\n": "high",
    "[columns.b]\naction = 'quasi'\n" + DATES.replace("FORMATS", "'%Y-%d-%m'"): "formats",
    "[columns.b]\naction = 'quasi'\n" + DATES.replace("FORMATS", "'%d.%m.'"): "formats",
    "[columns.b]\naction = 'quasi'\n" + TREE.replace('"none"', '"COLD"'): '"cold" stands in two',
}


@pytest.mark.parametrize("more", REFUSED)
def test_what_no_publication_can_have_is_refused_in_the_plan(tmp_path, more):
    (tmp_path / "plan.toml").write_text(HEAD.format(k=2, suppress=0, method="incognito") + AGE + more)
    with pytest.raises(BadInput, match=REFUSED[more]):
        Plan.read(tmp_path / "plan.toml")


@pytest.mark.parametrize("epsilon", ["1e-6", "800", "1e6"])
def test_each_end_of_a_range_is_published(tmp_path, epsilon):
    asked = [f'kind = "mean"\ncolumn = "age"\nlow = -9007199254740992\nhigh = 9007199254740992\nepsilon = {epsilon}\n']
    asked += [f'kind = "count"\nepsilon = {epsilon}\nrows_each = 1\n']
    plan = (
        AGE
        + '[columns.illness]\naction = "target"\n'
        + "".join(f"[statistics.s{at}]\n{one}" for at, one in enumerate(asked))
    )
    document, _ = published(tmp_path, [f"{at},x" for at in range(9)], plan)
    assert all(0 <= one["within"] < np.inf for one in document["statistics"]["released"])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(max_size=5) | st.sampled_from(["other", "others", "count", "bins"]), min_size=1, unique=True))
def test_no_name_of_a_bin_is_taken_for_another(names):
    cells = {"a": [one for at, one in enumerate(names) for _ in range(at + 1)] + ["no bin\0"] * 99}
    asked = Histogram(kind="histogram", column="a", values=names, epsilon=1e6)
    found = json.loads(json.dumps(released({"s": asked}, cells, np.arange(len(cells["a"])), unit="row")))["released"][0]
    assert [(one["value"], one["count"]) for one in found["bins"]] == [(name, at + 1) for at, name in enumerate(names)]
    assert found["others"] == 99


def test_edges_and_ranges_beyond_six_digits_stay_apart():
    edges = [1234567.0, 1234567.5, 1234568.0, 1234569.0]
    asked = Histogram(kind="histogram", column="a", edges=edges, epsilon=1e6)
    cells = {"a": [str(one) for one in edges[:-1] for _ in range(2)]}
    found = released({"s": asked}, cells, np.arange(6), unit="row")["released"][0]
    assert [(one["from"], one["below"], one["count"]) for one in found["bins"]] == [
        (low, high, 2) for low, high in zip(edges, edges[1:], strict=False)
    ]
    for fine in (
        Ranges(kind="ranges", low=0, high=2e9, whole=False, widths=[0.5, 1]),
        Cuts(kind="cuts", low=0, high=2e9, whole=False, cuts=[edges]),
    ):
        assert len({fine.rungs(str(one))[1] for one in edges}) == 4
    assert Ranges(kind="ranges", low=0, high=1, whole=False, widths=[0.1]).rungs("0.35")[1][0] == "[0.3,0.4)"


@pytest.mark.parametrize("cell", ["=1+1", "+cmd|x", "-2+3", "@SUM(A1)", "-5", "1-2"])
def test_the_card_says_what_a_spreadsheet_would_run(tmp_path, cell):
    document, found = published(tmp_path, [f'30,"{cell}"'] * 4, f'{AGE}[columns.illness]\naction = "target"\n')
    assert found["illness"] == [cell] * 4
    for page in (text(document), render(document)):
        assert ("4 cells may be run as formulas by a spreadsheet" in page) == (cell not in ("-5", "1-2"))


def test_a_draft_calls_no_word_missing():
    assert 'type = "text"' in draft(Path("t.csv"), {"a": ["1", "NA"]})
    assert 'type = "number"' in draft(Path("t.csv"), {"a": ["1", ""]})
