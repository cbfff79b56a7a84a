"""Figure 7: what was given up and what that took off, from the points of a sweep alone."""

import json

import pytest

from edgeveil.trainer.ext.sweep.axes import Axis, points
from edgeveil.trainer.recipe.schema import Recipe
from scripts.papers import figure_7
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
    assert figure_7.lost(row, "target") == pytest.approx((0.05, 0.03, 0.06))
    assert figure_7.lost(row, "fixed") == pytest.approx((0.63, 0.61, 0.64))
    assert figure_7.lost(row, "leak") == pytest.approx((0.02, 0.0, 0.03))


def test_lines_run_from_little_given_up_to_much():
    rows = [point("b", "prgan", 0.85, 0.2, 0.8), point("a", "prgan", 0.92, 0.3, 0.87), point("c", "ap", 0.9, 0.5, 0.88)]
    rows.append({"point": "d", "recipe": "wifi-ngp", "settings": {}, "seed": 0, "failed": "it diverged"})
    found = figure_7.lines(frontier(*rows))
    assert {kind: [row["point"] for row in mine] for kind, mine in found.items()} == {"prgan": ["a", "b"], "ap": ["c"]}


def test_the_committed_picture_is_drawn_from_the_record():
    drawn = figure_7.draw(json.loads((ROOT / figure_7.RECORD).read_text()))
    assert (ROOT / figure_7.PICTURE).read_bytes() == drawn, "run python -m scripts.papers.figure_7 --draw"


def test_sweeps_are_put_together_without_doubles():
    one = frontier(point("a", "prgan", 0.92, 0.3, 0.87), point("floor", "label-only", 0.95, 0.2, 0.2))
    two = frontier(point("b", "codebook", 0.95, 0.2, 0.21), point("floor", "label-only", 0.95, 0.2, 0.2))
    both = figure_7.merged(figure_7.merged({}, one), two)
    assert [row["point"] for row in both["points"]] == ["a", "floor", "b"]
    assert both["compared"] == 4
