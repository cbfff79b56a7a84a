"""Old names of recipes and kinds: refused in one sentence that says the new one; what was sealed before still runs."""

import json
import re

import numpy as np
import pytest
import tomllib

from edgeveil.edge_runtime.api import Perturber, RawFrame
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.recipe import messages
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.scaffold.given import Given
from edgeveil.trainer.scaffold.new import write_recipe
from edgeveil.trainer.sealing.inspect import inspect
from tests.support import bundles
from tests.support.small_runs import small_recipe, write_npz


@pytest.mark.parametrize(("old", "new"), messages.RECIPES.items())
def test_an_old_recipe_is_refused_with_its_new_name(old, new):
    with pytest.raises(BadInput, match=f'^The recipe "{old}" is called "{new}" since 0.2.$'):
        Recipe.find(old)
    assert Recipe.find(new).name == new


def test_an_old_kind_in_a_recipe_is_refused_with_its_new_name(tmp_path):
    table = tomllib.loads(Recipe.find("digits-codebook").toml())
    table["perturber"]["kind"] = "release"
    with pytest.raises(BadInput, match=r'^mine.toml: the perturber kind "release" is called "codebook" since 0\.2\.$'):
        Recipe.check(table, origin="mine.toml")


def test_a_recipe_that_is_no_table_where_one_belongs_is_still_said(tmp_path):
    table = tomllib.loads(Recipe.find("digits-prgan").toml())
    with pytest.raises(BadInput, match=r"`perturber`: expected"):
        Recipe.check({**table, "perturber": "release"})
    with pytest.raises(BadInput, match=r"`perturber\.kind`: expected"):
        Recipe.check({**table, "perturber": {"kind": ["release"]}})


def test_a_new_recipe_of_an_old_kind_is_refused_with_its_new_name(tmp_path):
    data = Given(f"npz:{write_npz(tmp_path)}")
    with pytest.raises(BadInput, match=r'^--kind: the perturber kind "release" is called "codebook" since 0\.2\.$'):
        write_recipe(data, tmp_path / "mine.toml", kind="release")
    assert not (tmp_path / "mine.toml").exists()


def test_a_run_made_before_says_the_new_name_and_is_read_once_its_recipe_does(tmp_path):
    run = Run.create(tmp_path / "run", small_recipe(write_npz(tmp_path), kind="label-only"))
    recipe, now = run.folder / "recipe.toml", Recipe.find("digits-codebook")
    text = recipe.read_text()
    recipe.write_text(now.toml().replace('kind = "codebook"', 'kind = "release"'))
    with pytest.raises(
        BadInput, match=rf'^{re.escape(str(recipe))}: the perturber kind "release" is called "codebook"'
    ):
        Run.open(run.folder)
    recipe.write_text(text)
    described = {"perturber": {"kind": "release", "identity_allowed": False, "substituted": False}}
    described |= {"input": {"name": "x", "kind": "vector", "shape": [6], "dtype": "float32", "low": 0.0, "high": 1.0}}
    described |= {"stages": [], "outputs": [], "models": [], "tables": []}
    (run.folder / "perturber").mkdir()
    (run.folder / "perturber" / "perturber.json").write_text(json.dumps(described))
    assert FittedPerturber.load(run.folder / "perturber").kind == "codebook"


def test_an_export_made_before_is_refused_with_the_new_name(tmp_path):
    manifest, members = bundles.numpy_example()
    manifest["perturber"]["kind"] = "release"
    folder = bundles.export_folder(tmp_path / "export", (manifest, members))
    with pytest.raises(BadInput, match=r'kind "release" is called "codebook" since 0\.2; export the run again\.'):
        ExportFolder.open(folder)


def test_a_bundle_sealed_before_verifies_is_shown_and_runs(tmp_path):
    manifest, members = bundles.numpy_example()
    manifest["perturber"]["kind"] = "release"
    made = bundles.make_bundle(tmp_path, example=(manifest, members))
    assert "perturber  release:" in inspect(made.path, made.trust).text()
    spec = manifest["input"]
    with Perturber.open(str(made.path), trust=str(made.trust)) as perturber:
        sent = perturber.perturb(RawFrame(np.zeros(spec["shape"], spec["dtype"]), index=0))
    assert sent.data.shape == tuple(spec["shape"])
