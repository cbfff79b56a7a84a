"""Settings of a codebook are compared on validation rows: the test slice is not even there."""

import numpy as np
import pytest

from edgeveil.trainer import datasets
from edgeveil.trainer.recipe.schema import Recipe
from scripts.codebooks.choosing import compare, fold
from tests.support import seeds


@pytest.fixture(scope="module")
def digits():
    recipe = Recipe.find("digits-codebook")
    budget = recipe.budget.model_copy(update={"epochs": 8})
    recipe = recipe.model_copy(update={"budget": budget, "seed": seeds.seed(0)})
    return recipe, datasets.load(recipe)


def test_a_fold_holds_rows_out_of_training_and_never_meets_the_test_slice(digits):
    _, dataset = digits
    folds = [fold(dataset, number) for number in (0, 1)]
    for folded in folds:
        parts = [set(folded.part(name).index) for name in ("classifiers", "perturber", "test")]
        assert not parts[0] & parts[2]
        assert not parts[1] & parts[2]
        assert not set().union(*parts) & set(dataset.slices.test)
        assert len(set().union(*parts)) == len(dataset.slices.classifiers) + len(dataset.slices.perturber)
    assert set(folds[0].slices.test) != set(folds[1].slices.test)


@pytest.mark.nightly  # by day what is compared, above, and a price: test_funnel.py
def test_settings_share_a_trunk_and_a_price_shows(digits, monkeypatch):
    from edgeveil.trainer.perturbers.codebook import fit

    recipe, dataset = digits
    trunks = []
    real = fit.prepare
    monkeypatch.setattr(fit, "prepare", lambda *a, **k: trunks.append(1) or real(*a, **k))
    section = recipe.perturber.model_copy(update={"steps": 100})
    settings = [section.model_copy(update={"price": price}) for price in (0.0, 8.0)]
    told = []
    # What the test slice holds must not matter.
    blind = dataset.x.copy()
    blind[dataset.slices.test] = 0
    from dataclasses import replace

    free, priced = compare(replace(dataset, x=blind), recipe, settings, fold_number=0, done=lambda n, f: told.append(n))
    assert trunks == [1]
    assert told == [0, 1]
    assert priced["certificate"]["bits"] < free["certificate"]["bits"]
    assert free["certificate"]["tried"] == 2
    assert np.isfinite(priced["kept"]["ink"])
