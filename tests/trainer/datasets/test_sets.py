"""Data sets are found by their files; a package adds its own by an entry point; facts are read without an import."""

import sys

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.registry import Registry
from edgeveil.trainer import datasets
from edgeveil.trainer.cli import doctor
from edgeveil.trainer.datasets.readings import DataSet
from edgeveil.trainer.recipe import data_section
from edgeveil.trainer.recipe.data_section import SETS
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.train import train
from tests.support.checkout import ROOT
from tests.support.small_runs import small_recipe

STEPS = {"source": "steps", "target": "pace", "sensitive": "who"}


@pytest.fixture
def plugin(monkeypatch):
    """The package with the data set ``steps``, installed."""
    monkeypatch.syspath_prepend(str(ROOT / "tests/support/plugins/steps"))
    yield
    sys.modules.pop("steps_data", None)


@pytest.mark.parametrize("name", [name for name, one in SETS.kinds().items() if "forms" not in one.facts])
def test_each_states_its_facts_and_reads(name):
    kind = SETS[name]
    assert issubclass(kind.load(), DataSet)
    assert kind.facts["licence"]
    assert kind.facts.get("sensor") in (None, "camera", "depth", "wifi", "motion")
    for digest in kind.facts.get("files", {}).values():
        assert len(bytes.fromhex(digest)) == 32
    assert "where" in kind.facts or kind.facts.get("downloaded") or not kind.facts.get("files")


def test_a_data_set_of_another_package_is_trained_on(plugin, tmp_path):
    recipe = small_recipe(None, kind="label-only", data=STEPS)
    assert recipe.sensor == "motion"
    run = train(recipe, tmp_path / "run")
    assert run.dataset().y_names == ("slow", "fast")
    assert datasets.load(Recipe.of_run(run.folder / "recipe.toml")).name == "steps"
    assert "steps" not in doctor.data_sets()  # it has no files to look for


def test_without_the_package_it_is_unknown_and_named():
    with pytest.raises(BadInput, match=r'"depth", .*, or "npz:FILE".*; got "steps"'):
        small_recipe(None, kind="label-only", data=STEPS)


def test_a_package_replaces_none_of_ours(monkeypatch, tmp_path):
    (tmp_path / "mine-1.dist-info").mkdir()
    (tmp_path / "mine-1.dist-info/entry_points.txt").write_text("[edgeveil.datasets]\ndigits = mine:Mine\n")
    (tmp_path / "mine.py").write_text('class Mine:\n    names = ("digits",)\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    fresh = Registry(SETS.package, key=SETS.key, group=SETS.group)
    monkeypatch.setattr(data_section, "SETS", fresh)
    assert fresh["digits"].attribute == "Digits"
