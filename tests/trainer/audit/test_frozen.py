"""A frozen set holds what left and nothing else, and only of data that may be passed on."""

import json
from dataclasses import replace

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit import frozen
from edgeveil.trainer.audit.frozen import open_target
from edgeveil.trainer.export.export import export
from tests.support import small_runs


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made-up")
    small_runs.cleaner(folder)
    export(folder / "run", ["coral-dev-board"], folder / "export")
    return open_target(folder / "export", run=None, trust=None, artefact="numpy-float32")


def public(opened):
    """The same, of a recipe that says the data are public."""
    run = opened.run
    data = run.recipe.data.model_copy(update={"public": True})
    changed = type(run)(run.folder, run.recipe.model_copy(update={"data": data}), run.facts)
    return replace(opened, run=changed)


def test_your_own_data_stay_unless_the_recipe_says_they_are_public(opened, tmp_path):
    with pytest.raises(BadInput, match="public = true"):
        frozen.write_frozen(opened, tmp_path / "set.npz")
    assert list(tmp_path.iterdir()) == []


def test_the_set_is_what_left_with_labels_slices_and_where_it_comes_from(opened, tmp_path):
    path = frozen.write_frozen(public(opened), tmp_path / "set.npz")
    dataset = opened.run.dataset()
    rows = dataset.slices.rows()
    with np.load(path, allow_pickle=False) as file:
        assert set(file.files) == {"x", "y", "z", "slice", "theta", "about"}
        assert np.array_equal(file["z"], dataset.z[rows])
        assert np.bincount(file["slice"]).tolist() == [200, 200, 200]  # too few rows for a fourth slice
        assert file["x"].shape == (600, 8)
        assert not (file["x"] == dataset.x[rows]).all(axis=1).any()
    about = json.loads(str(np.load(path)["about"]))
    assert about["kind"] == "edgeveil-frozen"
    assert "recipe states" in about["licence"]
    assert str(opened.run.folder) not in json.dumps(about)
    with pytest.raises(BadInput, match="exists"):
        frozen.write_frozen(public(opened), path)


def test_networks_that_never_ship_are_not_frozen(opened, tmp_path):
    keras = replace(opened, subject=replace(opened.subject, artefact="keras"))
    with pytest.raises(BadInput, match="never do"):
        frozen.write_frozen(keras, tmp_path / "set.npz")
