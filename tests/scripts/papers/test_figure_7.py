"""Figure 7: what was given up and what that took off, from the points of a sweep alone."""

import pytest

from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.sweep.axes import Axis, points
from scripts.reproduce.pages.papers import figure_7_page
from scripts.reproduce.papers import figure_7
from tests.support.checkout import ROOT


def rate(accuracy: float) -> dict:
    return {"accuracy": accuracy, "low": accuracy - 0.01, "high": accuracy + 0.02}


def point(name: str, kind: str, target: float, fixed: float, best: float) -> dict:
    return {
        "point": name,
        "recipe": f"wifi-{kind}",
        "settings": {"limits.target_accuracy": 0.9},
        "seed": 0,
        "perturber": kind,
        "data": "wifi",
        "raw": {"target": rate(0.95), "sensitive": rate(0.88)},
        "chance": {"majority": 0.2},
        "target": rate(target),
        "fixed": rate(fixed),
        "leak": {"name": "random forest", **rate(best)},
        "training_s": 75.0,
    }


def frontier(*rows: dict) -> dict:
    return {"points": list(rows), "compared": len(rows), "budget": "full"}


def test_every_point_of_the_figure_is_a_recipe_that_can_be_trained():
    given = [figure_7.RAW - floor for floor in figure_7.FLOORS]
    assert given == pytest.approx([0.03, 0.0525, 0.075, 0.0975, 0.12])
    asked = []
    for kinds, axis in figure_7.SWEEPS.values():
        recipes = [Recipe.find(f"wifi-{kind}") for kind in kinds]
        asked += points(recipes, [axis, Axis("seed", (0, 1))])
    assert len(asked) == 2 * (4 * 5 + 3 * 4 + 3 + 3)
    assert len({one.name for one in asked}) == len(asked)


def test_what_is_lost_is_against_raw_readings_and_ends_the_other_way_round():
    row = point("a", "prgan", target=0.90, fixed=0.25, best=0.86)
    assert figure_7_page.lost(row, "target") == pytest.approx((0.05, 0.03, 0.06))
    assert figure_7_page.lost(row, "fixed") == pytest.approx((0.63, 0.61, 0.64))
    assert figure_7_page.lost(row, "leak") == pytest.approx((0.02, 0.0, 0.03))


def test_lines_run_from_little_given_up_to_much_and_the_page_has_every_point():
    rows = [point("b", "prgan", 0.85, 0.2, 0.8), point("a", "prgan", 0.92, 0.3, 0.87), point("c", "ap", 0.9, 0.5, 0.88)]
    rows.append({"point": "d", "recipe": "wifi-ngp", "settings": {}, "seed": 0, "failed": "it diverged"})
    found = frontier(*rows)
    assert [row["point"] for row in figure_7_page.lines(found)["prgan"]] == ["a", "b"]
    page = figure_7_page.page(found)
    assert page.split("## Seed by seed")[1].count("| wifi-prgan target_accuracy=0.9 |") == 2
    assert "not trained: it diverged" in page
    assert "**8.0 [6.0, 9.0]** random forest | 68.0 |" in page


def test_settings_that_chose_the_same_checkpoint_are_one_row():
    rows = [point(str(floor), "prgan", 0.9, 0.25, 0.86) for floor in (0.92, 0.86, 0.83)]
    for row, floor in zip(rows, (0.92, 0.86, 0.83), strict=True):
        row["settings"] = {"limits.target_accuracy": floor}
    rows.append({**point("other", "prgan", 0.9, 0.25, 0.86), "seed": 1})
    shown = list(figure_7_page.cells(frontier(*rows)))
    assert [cells[:2] for cells in shown] == [
        ["wifi-prgan target_accuracy=0.92, 0.86, 0.83: one checkpoint", "0"],
        ["wifi-prgan target_accuracy=0.9", "1"],
    ]


def test_seeds_of_one_setting_are_one_row_of_the_mean_the_least_and_the_most():
    rows = [point("a", "prgan", 0.9, 0.25, 0.86), point("b", "prgan", 0.86, 0.25, 0.80)]
    rows[1]["seed"] = 1
    rows.append({**point("c", "prgan", 0.8, 0.1, 0.7), "settings": {"limits.target_accuracy": 0.8}})
    shown = {cells[0]: cells[1:] for cells in figure_7_page.over_seeds(frontier(*rows))}
    assert shown["wifi-prgan target_accuracy=0.9"] == [
        "2",
        "7.0 (5.0 to 9.0)",
        "63.0 (63.0 to 63.0)",
        "5.0 (2.0 to 8.0)",
    ]
    assert shown["wifi-prgan target_accuracy=0.8"][0] == "1"


def test_the_picture_is_the_same_for_the_same_points(tmp_path):
    found = frontier(point("a", "prgan", 0.92, 0.3, 0.87), point("b", "label-only", 0.95, 0.2, 0.2))
    for name in ("one.svg", "two.svg"):
        figure_7_page.draw(found, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_sweeps_are_put_together_without_doubles():
    one = frontier(point("a", "prgan", 0.92, 0.3, 0.87), point("floor", "label-only", 0.95, 0.2, 0.2))
    two = frontier(point("b", "codebook", 0.95, 0.2, 0.21), point("floor", "label-only", 0.95, 0.2, 0.2))
    both = figure_7.merged(figure_7.merged({}, one), two)
    assert [row["point"] for row in both["points"]] == ["a", "floor", "b"]
    assert both["compared"] == 4


@pytest.mark.skipif(not (ROOT / figure_7_page.RECORD).is_file(), reason="figure 7 is not recorded")
def test_the_committed_page_and_picture_are_what_the_record_says(tmp_path):
    import json

    record = json.loads((ROOT / figure_7_page.RECORD).read_text())
    assert (ROOT / figure_7_page.PAGE).read_text() == figure_7_page.page(record)
    figure_7_page.draw(record, tmp_path / "drawn.svg")
    assert (ROOT / figure_7_page.PICTURE).read_bytes() == (tmp_path / "drawn.svg").read_bytes()
