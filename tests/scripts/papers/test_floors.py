"""How much noise AP and Laplace get in Table 2: as much as keeps y at the paper's floor, chosen on validation."""

import json

from edgeveil.trainer.recipe.schema import Recipe
from scripts.papers import floors


def point(setting: float, y: float, z: float) -> dict[str, float]:
    return {"setting": setting, "target_accuracy": y, "sensitive_accuracy": z, "distance": 1.0}


def swept(chosen):
    return {"data": "depth", "kind": "ap", "setting": "distance", "floor": 0.9, "points": [], "chosen": chosen}


def test_a_row_is_trained_with_what_the_sweep_chose(tmp_path):
    assert floors.at_floor("depth", "ap", tmp_path) == Recipe.find("depth-ap")
    folder = tmp_path / floors.RECORDS
    folder.mkdir(parents=True)
    (folder / "depth-ap.json").write_text(json.dumps(swept(point(1.5, 0.91, 0.6))))
    recipe = floors.at_floor("depth", "ap", tmp_path)
    assert (recipe.perturber.distance, recipe.limits.target_accuracy) == (1.5, 0.9)
    assert floors.facts(recipe) == {"floor": 0.9, "setting": 1.5}
    assert "setting" not in floors.facts(Recipe.find("depth-laplace"))  # eps is looked for
    (folder / "depth-ap.json").write_text(json.dumps(swept(None)))
    assert floors.at_floor("depth", "ap", tmp_path) == Recipe.find("depth-ap")
