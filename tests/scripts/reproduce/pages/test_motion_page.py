"""The page on motion: what is met is bold, what is not is not, and what was not recorded is not on it."""

import re

import pytest

from scripts.reproduce.pages.series import motion_page


def rate(accuracy):
    return {"accuracy": accuracy, "low": accuracy - 0.1, "high": accuracy + 0.1, "name": "an attack"}


def row(*, best, label, energy=0.6, target=0.7):
    known = {name: {"correlation": energy if name == "energy" else 0.25} for name in motion_page.PROPERTIES}
    return {
        "chance": {"prior": 0.125, "majority": 0.175},
        "budget": "quick",
        "worst_adaptive": rate(best),
        "target": rate(target),
        "label": None if label is None else rate(label),
        "collateral": {"perturbed": {"read_from_it": {"attributes": known}}},
        "read_from_it": {"attributes": known},
        "streams": {"tracks": [{"releases": 4, "right": {"a": 0.3, "b": 0.4}, "chance": 0.2}, {"not_run": "few"}]},
    }


@pytest.fixture
def rows():
    seeds = {
        "0": {
            "codebook": row(best=0.2, label=0.9),
            "raw": row(best=0.6, label=0.9),
            "prgan": row(best=0.5, label=None),
        },
        "1": {"codebook": row(best=0.25, label=0.8, energy=0.4)},
    }
    for found in seeds.values():
        found["label-only"] = row(best=0.19, label=0.8, energy=0.1)
    raw = {"0": rate(0.9), "1": rate(0.9)}
    return {"seeds": seeds, "label_of_raw": raw, "most_kept": {"energy": 0.73, "tempo": 0.8, "duration": 0.45}}


def line(page, begins):
    """The cells of the one line of a table whose first cell is ``begins``, the last one where there are several."""
    return [one.strip() for one in re.findall(rf"^\| {re.escape(begins)} \|(.*)\|$", page, re.MULTILINE)[-1].split("|")]


def test_what_is_met_is_bold(rows):
    page = motion_page.page(rows, {}, {})
    assert line(page, "y, of what is read from raw windows")[1:] == ["**100.0 %**", "88.9 %"]
    assert line(page, "best attack, points above chance")[1:] == ["7.5", "12.5"]
    assert line(page, "best attack, points above counted chance")[1:] == ["**2.5**", "7.5"]
    assert line(page, "energy") == ["at least 0.50", "**0.60**", "0.40"]
    assert line(page, "duration") == ["at least 0.50", "0.25", "0.25"]
    assert "at most\n0.73 for energy, 0.80 for tempo, 0.45 for duration" in page
    assert "together name the person 40.0 % of the time\n(chance 20.0 %; seed 0)" in page


def test_the_trade_is_what_the_codebook_gives_beyond_label_only(rows):
    page = motion_page.page(rows, {}, {})
    assert "gives\n+0.40 of energy, +0.00 of tempo, +0.00 of duration" in page
    assert "gains 3.5 points" in page.replace("\n", " ")


def test_y_is_the_label_or_where_none_leaves_what_d_y_reads(rows):
    page = motion_page.page(rows, {}, {})
    assert line(page, "prgan")[1] == "70.0 % [60.0, 80.0]"
    assert line(page, "codebook")[:2] == ["1", "80.0 % [70.0, 90.0]"]


def test_people_never_seen_are_shown_where_they_were_recorded(rows):
    assert motion_page.page(rows, {}, {}).count("\n## ") == 1
    split = {"rows": {"codebook": row(best=0.5, label=0.8), "raw": row(best=0.9, label=None)}, "new": [1, 2, 3]}
    page = motion_page.page(rows, {"splits": [split]}, {})
    rate_of_y, best, chance = "70.0 % [60.0, 80.0]", "90.0 % [80.0, 100.0]", "17.5 %"
    assert line(page, "raw") == ["1, 2, 3", rate_of_y, best, "an attack", chance, "0.60", "0.25", "0.25"]
    assert "1 choices of 3 people of 8 whom" in page


def point(codes, tempo, price, *, leak=0.2):
    settings = {"perturber.codes": codes, "perturber.weights": [1.0, tempo], "perturber.price": price}
    kept = {name: {"correlation": 0.4, "low": 0.3, "high": 0.5} for name in motion_page.PROPERTIES}
    figures = {"target": rate(0.8), "leak": rate(leak), "chance": {"majority": 0.175}, "kept": kept}
    return {"recipe": "motion-codebook", "data": "utd-mhad", "floor": False, "settings": settings, **figures}


def test_the_frontier_names_the_recipe_and_draws_a_line_for_each_that_the_price_goes_over(rows, tmp_path):
    floor = {**point(2, 1.0, 1.0), "recipe": "label-only", "floor": True, "settings": {}, "kept": {}}
    failed = {**point(99, 1.0, 1.0), "failed": "it diverged"}
    swept = {"points": [floor, point(4, 2.0, 0.5), point(4, 2.0, 2.0), point(12, 6.0, 2.0, leak=0.3), failed]}
    page = motion_page.page(rows, {}, swept)
    figures = ["80.0 % [70.0, 90.0]", "20.0 % [10.0, 30.0]", "an attack"]
    assert "3 settings, one run" in page
    assert line(page, "4") == ["2", "0.5", *figures, "0.40", "0.40", "0.40"]
    assert line(page, "4 (recipe)")[:2] == ["2", "2"]
    assert "On average 12 codes in place of 4 give +0.00 of energy, +0.00 of tempo and +10.0 points" in page
    assert "2 as price in place of 0.5 give +0.00 of energy, +0.00 of tempo and +5.0 points" in page
    assert line(page, "label-only")[2:] == [*figures, "-", "-", "-"]
    motion_page.draw({"points": swept["points"][:4]}, tmp_path / "drawn.svg")
    drawn = (tmp_path / "drawn.svg").read_text()
    assert "<svg" in drawn
