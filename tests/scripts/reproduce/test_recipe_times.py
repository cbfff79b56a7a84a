"""runtime/recipe_times.py times the command a user gives, and its page says what is missing."""

import json
import subprocess
import sys

import pytest

from edgeveil.trainer.recipe.schema import Recipe
from scripts.reproduce.pages import recipe_times_page
from scripts.reproduce.runtime import recipe_times
from tests.support.checkout import ROOT


def timed(record, *words):
    return subprocess.run(
        [sys.executable, "-m", "scripts.reproduce.runtime.recipe_times", *words, "--record", record, "--anyway"],
        cwd=ROOT,
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
    page = recipe_times_page.page(document)
    assert page.count("not recorded") == len(Recipe.names()) - 1
    assert f"| `digits-label-only` | {row['wall_s']:.0f}" in page


def test_what_is_valid_stays_and_a_changed_recipe_is_missing(tmp_path, monkeypatch):
    record = tmp_path / "recipes.json"
    row = {"recipe": "scene", "verdict": "VALID", "settings": recipe_times.settings("scene"), "wall_s": 3.0}
    record.write_text(json.dumps({"rows": [row, {**row, "recipe": "wq"}]}))  # wq is another recipe now
    assert list(recipe_times.read(record)) == ["scene"]
    monkeypatch.setattr(recipe_times, "timed", lambda name, _folder: {**row, "verdict": "INVALID", "wall_s": 9.0})
    monkeypatch.setattr(sys, "argv", ["recipe_times", "scene", "--anyway", "--record", str(record)])
    assert recipe_times.main() == 0
    assert recipe_times.read(record)["scene"]["wall_s"] == 3.0


def test_an_unknown_recipe_is_one_error(tmp_path):
    done = timed(tmp_path / "r.json", "digit")
    assert (done.returncode, (tmp_path / "r.json").exists()) == (2, False)
    assert "came digit" in done.stderr


def test_the_share_of_the_papers_generator_is_shown():
    row = {"recipe": "mnist-ngp", "verdict": "INVALID", "wall_s": 12.4, "stages_s": {"perturber": 7.0}}
    row |= {"use": {"own_cores": 1.5}, "limit_met": False, "macs": 0.8e6, "parameters": 117_700}
    large = {**row, "recipe": "mnist-label-only", "macs": 3.2e6, "parameters": 3_381_314}
    shown = {cells[0]: cells[1:] for cells in recipe_times_page.rows({"rows": [row, large]})}
    assert shown["`mnist-ngp`"][:6] == ["12 (INVALID: other work ran)", "-", "-", "7", "1.50", "no"]
    assert shown["`mnist-ngp`"][6:] == ["0.800", "117.7", "50 %, 50 %"]
    assert shown["`mnist-label-only`"][6:] == ["3.200", "3,381.3", "200 %, 1436 %"]


@pytest.mark.skipif(not (ROOT / recipe_times_page.RECORD).is_file(), reason="recipes' times are not recorded")
def test_the_committed_page_is_what_the_record_says():
    record = json.loads((ROOT / recipe_times_page.RECORD).read_text())
    assert (ROOT / recipe_times_page.PAGE).read_text() == recipe_times_page.page(record)
