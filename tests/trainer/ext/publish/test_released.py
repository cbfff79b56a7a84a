"""Statistics beside the data: one person changes them by no more than their epsilon says."""

import json
import re

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext.publish.actions import Count, Histogram, Mean, drawn_once, geometric, laplace_sum, released
from edgeveil.trainer.ext.publish.master_key import MasterKey
from edgeveil.trainer.ext.publish.plan import Plan
from edgeveil.trainer.ext.publish.publication import publish
from edgeveil.trainer.ext.publish.vault import Vault
from edgeveil.trainer.measures.black_box import lower_bound
from tests.support.checkout import ROOT
from tests.support.publishing import visit_tables

SURE = 1e6  # epsilon at which noise is next to nothing
PERSON = np.array([0, 1, 0, 2, 1, 0, 3])
CELLS = {
    "door": ["north", "south", "north", "east", "south", "south", ""],
    "minutes": ["10", "20", "30", "40", "500", "", "7"],
}


def of(asked, cells=CELLS, person=PERSON):
    """The one statistic that was asked for."""
    (found,) = released({"one": asked}, cells, person, unit="person")["released"]
    return found


@pytest.mark.parametrize(
    ("asked", "value"),
    [
        (Count(kind="count", epsilon=SURE), 4),
        (Count(kind="count", epsilon=SURE, rows_each=2), 6),
        (Count(kind="count", epsilon=SURE, rows_each=9, where={"door": "south"}), 3),
        (Count(kind="count", epsilon=SURE, where={"door": "south"}), 2),
    ],
)
def test_a_count_takes_so_many_rows_of_each_person(asked, value):
    assert of(asked)["value"] == value


def test_a_histogram_has_a_bin_for_what_no_other_takes():
    names = of(Histogram(kind="histogram", column="door", values=["north", "south"], epsilon=SURE, rows_each=9))
    assert names["bins"] == [{"value": "north", "count": 2}, {"value": "south", "count": 3}]
    assert names["others"] == 2
    edges = of(Histogram(kind="histogram", column="minutes", edges=[10, 20, 40], epsilon=SURE, rows_each=9))
    assert edges["bins"] == [{"from": 10, "below": 20, "count": 1}, {"from": 20, "below": 40, "count": 2}]
    assert edges["others"] == 4


def test_a_mean_is_of_clipped_numbers_and_leaves_empty_cells_out():
    found = of(Mean(kind="mean", column="minutes", low=0, high=100, epsilon=SURE, rows_each=9))
    assert found["value"] == pytest.approx((10 + 20 + 30 + 40 + 100 + 7) / 6, abs=0.01)
    assert found["count"] == 6
    with pytest.raises(BadInput, match='Column "minutes", row 4: a number was expected'):
        of(
            Mean(kind="mean", column="minutes", low=0, high=100, epsilon=1.0),
            {**CELLS, "minutes": ["10", "20", "30", "forty", "500", "", "7"]},
        )


def test_a_person_who_has_many_rows_is_hidden_by_more_noise():
    assert of(Count(kind="count", epsilon=1.0, rows_each=3))["scale"] == pytest.approx(3, rel=1e-6)
    mean = of(Mean(kind="mean", column="minutes", low=0, high=100, epsilon=1.0, rows_each=3))
    assert mean["count_scale"] == pytest.approx(6, rel=1e-6)
    assert mean["scale"] == pytest.approx(3 * 50 / 0.5, rel=1e-6)
    assert of(Histogram(kind="histogram", column="door", values=["north"], epsilon=0.5, rows_each=2))[
        "scale"
    ] == pytest.approx(4, rel=1e-6)


def test_the_noise_is_of_the_law_that_it_says():
    drawn = np.array(geometric([0] * 20_000, most=1, epsilon=1.0).values)
    ratio = np.exp(-1)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(-3, 4))
    seen = np.array([(drawn == value).mean() for value in range(-3, 4)])
    assert np.abs(seen - law).max() < 0.019  # over 5 standard errors of each of seven shares
    assert np.mean(np.abs(drawn) >= geometric([0], most=1, epsilon=1.0).within) < 0.06
    others = np.array([value + 1 for value in geometric([0] * 20_000, most=1, epsilon=1.0).values])
    spent = lower_bound(drawn, others, confidence=1 - 1e-7).epsilon
    assert 0.6 < spent <= 1


def test_a_sum_clips_what_one_person_adds():
    assert laplace_sum([1e9, -4.0, 1.0], most=2.0, epsilon=SURE).values[0] == pytest.approx(1.0, abs=0.01)


def test_a_run_that_goes_on_draws_nothing_again(tmp_path):
    asked = {"people": Count(kind="count", epsilon=0.01)}
    first = drawn_once(tmp_path / "drawn.json", asked, CELLS, PERSON, unit="person")
    again = [drawn_once(tmp_path / "drawn.json", asked, CELLS, PERSON, unit="person") for _ in range(20)]
    assert all(one == first for one in again)
    assert len({json.dumps(released(asked, CELLS, PERSON, unit="person")) for _ in range(20)}) > 1
    assert drawn_once(tmp_path / "none.json", {}, CELLS, PERSON, unit="person") is None


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("", "needs a kind of count, histogram, mean; it has none yet"),
        ('kind = "median"', 'needs a kind of count, histogram, mean; it has "median"'),
        ('kind = "count"', "`epsilon` is missing"),
        ('kind = "count"\nepsilon = 0', "`epsilon`: expected greater than or equal to 0.000001"),
        ('kind = "count"\nepsilon = 1\nrows_each = 0', "`rows_each`: expected greater than or equal to 1"),
        ('kind = "histogram"\nepsilon = 1\ncolumn = "door"', "`values` or `edges`"),
        ('kind = "histogram"\nepsilon = 1\ncolumn = "age"\nedges = [5, 5]', "`edges` to be rising numbers"),
        ('kind = "histogram"\nepsilon = 1\ncolumn = "door"\nvalues = ["a", "a"]', "`values` to be different"),
        ('kind = "mean"\nepsilon = 1\ncolumn = "age"\nlow = 9\nhigh = 1', "`low` below `high`"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(tmp_path, table, said):
    (tmp_path / "plan.toml").write_text(f"{visit_tables.PLAN}\n[statistics.one]\n{table}\n")
    with pytest.raises(BadInput, match=said):
        Plan.read(tmp_path / "plan.toml")


def test_a_statistic_has_a_name(tmp_path):
    (tmp_path / "plan.toml").write_text(f'{visit_tables.PLAN}\n[statistics]\nkind = "count"\nepsilon = 1\n')
    with pytest.raises(BadInput, match=r"a table \[statistics.NAME\] for each"):
        Plan.read(tmp_path / "plan.toml")


def test_a_statistic_of_a_column_that_is_not_there_is_refused():
    with pytest.raises(BadInput, match=r'"one" asks for a column "dor".*"door"'):
        of(Count(kind="count", epsilon=1.0, where={"dor": "north"}))


def test_rows_that_are_each_anothers_count_once(tmp_path):
    text = visit_tables.PLAN.replace('people = "visitor"\nlink = "person"', 'link = "rows"').replace(
        'action = "pseudonym"\nmode = "vault"\nnormalise = ["nfkc", "case", "spaces"]\nepoch = 1', 'action = "drop"'
    )
    (tmp_path / "plan.toml").write_text(f'{text}\n[statistics.one]\nkind = "count"\nepsilon = 1\nrows_each = 2\n')
    with pytest.raises(BadInput, match="each row is another's: set rows_each = 1"):
        Plan.read(tmp_path / "plan.toml")


def test_a_publication_says_its_statistics(tmp_path):
    visit_tables.write(tmp_path / "visits.csv")
    (tmp_path / "plan.toml").write_text(visit_tables.PLAN + visit_tables.STATISTICS)
    plan, key = Plan.read(tmp_path / "plan.toml"), MasterKey(bytes(64))
    with Vault(tmp_path / "vault", key) as vault:
        document = publish(tmp_path / "visits.csv", plan, key, tmp_path / "out", recipient="university", vault=vault)
    found = document["statistics"]
    assert found["epsilon"] == 2
    assert found["unit"] == "person"
    people, ages, minutes = found["released"]
    assert abs(people["value"] - 120) < 40
    assert abs(sum(one["count"] for one in ages["bins"]) - 120) < 160
    assert 0 <= minutes["value"] <= 500
    for page in ("card.html", "publication.md"):
        assert "2-differentially private for each person" in (tmp_path / "out" / page).read_text()


def test_the_page_of_the_plan_has_plans_that_are_read(tmp_path):
    page = (ROOT / "docs/how-to/publish-a-table.md").read_text()
    (tmp_path / "plan.toml").write_text("\n".join(re.findall(r"```toml\n(.*?)```", page, re.DOTALL)))
    plan = Plan.read(tmp_path / "plan.toml")
    assert set(plan.statistics) == {"flu", "ages", "minutes"}
    assert plan.attack is not None
