"""scripts/bench_recipes.py times the command a user gives, and its page says what is missing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import bench_recipes
import make_result_docs

from trainer.recipe import Recipe
from trainer.report import recipes

ROOT = Path(make_result_docs.__file__).resolve().parents[1]


def timed(record, *words):
    script = ROOT / "scripts/bench_recipes.py"
    return subprocess.run(
        [sys.executable, script, *words, "--record", record, "--anyway"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_recipe_is_timed_and_shown(tmp_path):
    record = tmp_path / "recipes.json"
    done = timed(record, "digits-label-only")
    assert record.is_file(), done.stderr
    document = json.loads(record.read_text())
    (row,) = document["rows"]
    assert done.returncode == (0 if row["verdict"] == "VALID" else 3)
    assert row["wall_s"] > sum(row["stages_s"].values()) > 0
    assert row["limit_met"] is True
    assert row["macs"] > row["parameters"] > 1000
    page = make_result_docs.recipes_page(document)
    assert page.count("not recorded") == len(Recipe.names()) - 1
    assert f"| `digits-label-only` | {row['wall_s']:.0f}" in page


def test_what_is_valid_stays_and_a_changed_recipe_is_missing(tmp_path, monkeypatch):
    record = tmp_path / "recipes.json"
    row = {"recipe": "scene", "verdict": "VALID", "settings": bench_recipes.settings("scene"), "wall_s": 3.0}
    record.write_text(json.dumps({"rows": [row, {**row, "recipe": "wq"}]}))  # wq is another recipe now
    assert list(bench_recipes.read(record)) == ["scene"]
    monkeypatch.setattr(bench_recipes, "timed", lambda name, _folder: {**row, "verdict": "INVALID", "wall_s": 9.0})
    monkeypatch.setattr(sys, "argv", ["bench_recipes", "scene", "--anyway", "--record", str(record)])
    assert bench_recipes.main() == 0
    assert bench_recipes.read(record)["scene"]["wall_s"] == 3.0


def test_an_unknown_recipe_is_one_error(tmp_path):
    done = timed(tmp_path / "r.json", "digit")
    assert (done.returncode, (tmp_path / "r.json").exists()) == (2, False)
    assert "came digit" in done.stderr


def test_the_share_of_the_papers_generator_is_shown():
    row = {"recipe": "mnist-ngp", "verdict": "INVALID", "wall_s": 12.4, "stages_s": {"perturber": 7.0}}
    row |= {"use": {"own_cores": 1.5}, "limit_met": False, "macs": 0.8e6, "parameters": 117_700}
    large = {**row, "recipe": "mnist-label-only", "macs": 3.2e6, "parameters": 3_381_314}
    shown = {cells[0]: cells[1:] for cells in recipes.rows({"rows": [row, large]})}
    assert shown["`mnist-ngp`"][:6] == ["12 (INVALID: other work ran)", "-", "-", "7", "1.50", "no"]
    assert shown["`mnist-ngp`"][6:] == ["0.800", "117.7", "50 %, 50 %"]
    assert shown["`mnist-label-only`"][6:] == ["3.200", "3,381.3", "200 %, 1436 %"]


@pytest.mark.skipif(not (ROOT / make_result_docs.RECIPES).is_file(), reason="recipes' times are not recorded")
def test_the_committed_page_is_what_the_record_says():
    record = json.loads((ROOT / make_result_docs.RECIPES).read_text())
    assert (ROOT / make_result_docs.RECIPES_PAGE).read_text() == make_result_docs.recipes_page(record)
