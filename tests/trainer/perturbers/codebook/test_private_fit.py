"""A codebook under [private], from recipe to the bundle's promise."""

import shutil

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.export.export import export
from edgeveil.trainer.ext.private import cover
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.train import train
from tests.support.small_runs import private_recipe, write_npz

pytestmark = pytest.mark.usefixtures("coarse_accountant")
CODEBOOK = {"kind": "codebook", "keep": ["pixels"], "codes": 4, "width": 16}


def recipe_of(path, perturber=None, **sections):
    table = private_recipe(path).model_dump(exclude_none=True)
    return Recipe.check({**table, "perturber": {**CODEBOOK, **(perturber or {})}, **sections})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("private-codebook")
    return train(recipe_of(write_npz(folder, rows=3000)), folder / "run")


def test_what_ships_is_paid_for_and_the_sentence_stands(run, tmp_path):
    made = export(run.folder, ["coral-dev-board"], tmp_path / "export")
    marks = made.manifest["training"]["marks"]
    assert marks["models"] == {"encoder": "private: DP-SGD on two slices, 0.9 of the budget"}
    assert marks["tables"] == {"pictures": "private: Gaussian mechanism, 0.1 of the budget"}
    assert (marks["range"], marks["calibration"]) == ("public", "public")
    assert cover.section(made.manifest)["given"]


def test_each_slice_spends_the_budget_once(run):
    spent = run.facts["private"]
    assert spent["codes"]["epsilon"] + spent["pictures"]["epsilon"] <= 8.0
    assert spent["trunk"]["epsilon"] <= 8.0
    assert (spent["trunk"]["begun"], spent["codes"]["begun"]) == (20, 20)
    parts = [run.dataset().part(name).index for name in ("classifiers", "perturber")]
    assert not set(parts[0]) & set(parts[1])
    assert spent["trunk"]["rate"] == 128 / spent["trunk"]["units"]


def test_a_code_is_of_its_class(run):
    fitted, test = run.perturber(), run.dataset().part("test")
    out = fitted.perturb(test.x)
    assert (out["code"] // 4 == out["label"]).all()


@pytest.mark.nightly  # by day of label-only: ext/private/test_private_train.py
def test_a_run_that_is_resumed_spends_nothing_again(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    shutil.rmtree(folder / "perturber")  # as if it was killed before it was written
    again = train(run.recipe, folder, resume=True).perturber()
    for name, table in run.perturber().tables.items():
        np.testing.assert_array_equal(again.tables[name], table)
    for one, other in zip(
        again.models["encoder"].get_weights(), run.perturber().models["encoder"].get_weights(), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("perturber", "words"),
    [
        ({"synthesis": "donor", "public_data": True}, "somebody's own sample"),
        ({"method": "residual"}, "without noise"),
        ({"keep": ["age"]}, '"age" has no public bounds'),
        ({"hold": "track:7"}, "drawn from k-means"),
    ],
)
def test_what_no_mechanism_pays_for_is_refused(perturber, words):
    with pytest.raises(BadInput, match=words):
        recipe_of("anywhere.npz", perturber)


def test_unseen_people_are_refused():
    with pytest.raises(BadInput, match="unseen_accuracy"):
        recipe_of("anywhere.npz", limits={"target_accuracy": 0.5, "unseen_accuracy": 0.9})


def test_too_few_units_of_the_first_slice_are_refused_before_anything_is_trained(run, tmp_path, monkeypatch):
    from edgeveil.trainer import train as training

    plain = training.private.guarded

    def few(dataset, asked, name):
        if name == "classifiers":
            raise BadInput("too few there")
        return plain(dataset, asked, name)

    monkeypatch.setattr(training.private, "guarded", few)
    with pytest.raises(BadInput, match="too few there"):
        train(run.recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()
