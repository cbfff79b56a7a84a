"""How much noise AP and Laplace get in Table 2: as much as keeps y at the paper's floor, chosen on validation."""

import json

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.recipe.schema import Recipe
from scripts.reproduce.pages.papers import table_2_floors, table_2_page
from scripts.reproduce.papers import floor_sweep, floors, table_2
from tests.support.small_runs import small_recipe, write_npz


def point(setting: float, y: float, z: float) -> dict[str, float]:
    return {"setting": setting, "target_accuracy": y, "sensitive_accuracy": z, "distance": 1.0}


def swept(points, least, *, data="depth", kind="laplace", raw=0.9):
    return {
        "data": data, "kind": kind, "setting": floors.SETTINGS[kind], "seed": 0, "rows": 150, "raw": raw,
        "floor": least, "points": points, "chosen": floors.chosen(points, least),
    }  # fmt: skip


def test_the_floor_is_the_paper_s_or_the_same_share_of_what_d_y_reads_raw():
    assert floors.floor("depth", 0.96) == 0.95
    assert floors.floor("depth", 0.90) == pytest.approx(0.90 * 95 / 99.95)
    assert floors.floor("wifi", 0.90) == 0.75


def test_of_the_settings_that_keep_y_the_one_that_hides_most_is_taken():
    points = [point(20, 0.95, 0.8), point(10, 0.90, 0.6), point(5, 0.899, 0.1), point(8, 0.93, 0.7)]
    assert floors.chosen(points, 0.9) == points[1]
    assert floors.chosen(points, 0.96) is None


def test_a_row_is_trained_with_what_the_sweep_chose(tmp_path):
    assert floors.at_floor("depth", "ap", tmp_path) == Recipe.find("depth-ap")
    folder = tmp_path / floors.RECORDS
    folder.mkdir(parents=True)
    (folder / "depth-ap.json").write_text(json.dumps(swept([point(1.5, 0.91, 0.6)], 0.9, kind="ap")))
    recipe = floors.at_floor("depth", "ap", tmp_path)
    assert (recipe.perturber.distance, recipe.limits.target_accuracy) == (1.5, 0.9)
    assert floors.facts(recipe) == {"floor": 0.9, "setting": 1.5}
    assert "setting" not in floors.facts(Recipe.find("depth-laplace"))  # eps is looked for
    (folder / "depth-ap.json").write_text(json.dumps(swept([point(1.5, 0.5, 0.6)], 0.9, kind="ap")))
    assert floors.at_floor("depth", "ap", tmp_path) == Recipe.find("depth-ap")


def test_the_curve_of_laplace_noise_ends_where_y_is_lost_and_a_run_of_another_setting_is_refused(tmp_path):
    path = write_npz(tmp_path)
    data = {"source": f"npz:{path}", "target": "y", "sensitive": "z", "low": -8, "high": 8}
    recipe = small_recipe(path, data=data, perturber={"kind": "laplace", "eps": 50.0})
    run = table_2.complete(recipe, tmp_path / "run", None)
    assert table_2.complete(recipe, tmp_path / "run", None).facts == run.facts
    with pytest.raises(BadInput, match="another recipe"):
        table_2.complete(floors.set_to(recipe, 10.0, 0.9), tmp_path / "run", None)
    measured = floor_sweep.judge(run)
    raw = measured(run.validation().x)
    found = list(floor_sweep.of_laplace(run, measured, raw["target_accuracy"]))
    kept = np.array([one["target_accuracy"] for one in found])
    assert found[0]["setting"] == 100
    assert (np.diff([one["setting"] for one in found]) < 0).all()
    least = raw["target_accuracy"] - floor_sweep.BELOW
    assert kept[-1] < least <= kept[:-1].min()
    assert found[-1]["distance"] > found[0]["distance"] > raw["distance"] == 0


def test_the_page_shows_the_chosen_setting_and_where_none_keeps_y():
    points = [point(100 / 2**step, round(0.94 - 0.01 * step, 2), 0.9 - 0.05 * step) for step in range(12)]
    record = swept(points, 0.9)
    shown = table_2_floors.shown(record)
    assert record["chosen"] in shown
    assert points[5] in shown  # the first below the floor
    assert len(shown) <= table_2_floors.SHOWN + 2
    section = table_2_floors.section([record], [], "depth")
    assert [row[-1] for row in section["floors"]].count("chosen") == 1
    line = section["floor_lines"][0]
    assert "which is below the paper's floor of 95; the most that any setting kept is 94.0, at 100." in line
    assert "same share of raw as the paper's 95 of 99.95" in line
    lost = table_2_floors.section([swept(points, 0.99)], [], "depth")
    assert "**No setting keeps it**: the most that any setting kept is 94.0, at 100." in lost["floor_lines"][0]
    high = table_2_floors.section([swept([point(20, 0.96, 0.7)], 0.95)], [], "depth")
    assert "the floor is the paper's 95.0. The paper tries no eps above 10" in high["floor_lines"][0]
    assert table_2_floors.section([record], [], "mnist") == {"floors": [], "floor_lines": []}


def test_a_row_of_another_setting_than_the_chosen_is_named():
    record = swept([point(8.0, 0.92, 0.6)], 0.9)
    rows = [
        {"data": "depth", "row": "laplace", "seed": seed, "training": {"setting": setting}}
        for seed, setting in enumerate((8.0, 9.0, None))
    ]
    assert "still has seed 1, 2 with" in table_2_floors.section([record], rows, "depth")["floor_lines"][0]
    assert "still has" not in table_2_floors.section([record], rows[:1], "depth")["floor_lines"][0]


def test_the_page_is_made_with_the_sweeps_there_are():
    assert "### How much noise y bears" not in table_2_page.page([], {}, [])
