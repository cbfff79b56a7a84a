"""How much noise AP and Laplace get in Table 2: as much as keeps y at the paper's floor, chosen on validation."""

import json

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.recipe.schema import Recipe
from scripts.papers import floor_sweep, floors, table_2
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


@pytest.mark.nightly  # by day the choice of a floor, above
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
