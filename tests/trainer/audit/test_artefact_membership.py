"""Membership from the artefact: found where a network remembers its rows, and not where it never saw them."""

from dataclasses import replace

import numpy as np
import pytest

from edgeveil.trainer import datasets
from edgeveil.trainer.attacks import problem
from edgeveil.trainer.audit.probes import artefact_membership as probe
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.graphs.prediction import predict
from tests.support import seeds
from tests.support.small_runs import small_recipe, write_npz

LIKE = probe.Training("perturber", 6e-3, 40, 40)
BUDGET = replace(problem.BUDGETS["quick"], epochs=40)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """y is a coin's, so that all that a network knows of it, it remembers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1200, 60)).astype(np.float32)
    path = write_npz(tmp_path_factory.mktemp("coins"), rows=1200, x=x, y=rng.integers(0, 2, 1200))
    return datasets.load(small_recipe(path, kind="label-only"))


def network(values=60):
    import keras

    keras.utils.set_random_seed(seeds.seed(0))
    layers = [keras.Input((values,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(2)]
    return keras.Sequential(layers)


@pytest.fixture(scope="module")
def remembering(dataset):
    """A network that was trained for long on the rows of the second slice."""
    import keras

    model, (part, _) = network(), fit_and_validation(dataset, "perturber")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(3e-3), loss)
    model.fit(dataset.unit(part.x), part.y, batch_size=20, epochs=60, verbose=0)
    return model


def rows(dataset, model, budget=BUDGET):
    found = probe.run(lambda x: predict(model, dataset.unit(x)), model, dataset, LIKE, budget, 0)
    return {(row.name, row.figure): row for row in found}


@pytest.mark.nightly  # by day the probes of what is sent: test_probes.py
def test_rows_that_are_remembered_are_recognised_by_both_attacks(dataset, remembering):
    found = rows(dataset, remembering)
    assert list(found) == [
        ("from the artefact, by loss", "auc"),
        ("from the artefact, by loss", "recognised"),
        ("from the artefact, by LiRA", "auc"),
        ("from the artefact, by LiRA", "recognised"),
    ]
    for attack in ("loss", "LiRA"):
        assert found[f"from the artefact, by {attack}", "auc"].interval[0] > 0.57
    assert found["from the artefact, by loss", "auc"].rows == 240 + 240


def test_a_network_that_learned_nothing_tells_nothing(dataset):
    for (_, figure), row in rows(dataset, network(), replace(BUDGET, epochs=2)).items():
        if figure == "auc":
            assert 0.36 < row.value < 0.64  # 5 deviations of the area of 240 and 240 rows


@pytest.mark.nightly  # by day a network that learned nothing, above
def test_shadows_keep_to_the_budget(dataset, remembering, monkeypatch):
    asked = []
    monkeypatch.setattr(probe, "_shadows", lambda *about: asked.append(about) or np.zeros(about[3].shape))
    rows(dataset, remembering)
    inside = asked[0][3]
    assert inside.shape == (8, 480)
    assert (inside.sum(axis=0) == 4).all()


def test_too_few_rows_are_said(tmp_path):
    few = datasets.load(small_recipe(write_npz(tmp_path, rows=400), kind="label-only"))
    assert all("at least 200" in row.not_run for row in rows(few, network(6)).values())


def test_the_network_is_the_one_that_decides_y_and_not_the_head():
    stages = [
        {"stage": "preprocess", "input": "x", "output": "u"},
        {"stage": "artefact", "model": "encoder", "inputs": {"i": "u"}, "outputs": {"a": "features", "b": "logits"}},
        {"stage": "table", "op": "argmax", "input": "logits", "output": "label"},
        {"stage": "artefact", "model": "head", "inputs": {"sample": "u"}, "outputs": {"scores": "head_scores"}},
        {"stage": "table", "op": "argmax", "input": "head_scores", "output": "head"},
    ]
    manifest = {"stages": stages, "outputs": [], "stream": {"hold": "track"}}
    found = probe.network(manifest, "head")
    assert found == probe.Network("encoder", "b", "logits")
    cut = probe.only_logits(manifest, found, 3)
    assert cut["stages"] == stages[:2]
    assert [(one["tensor"], one["shape"]) for one in cut["outputs"]] == [("logits", [3])]
    assert probe.network({"stages": stages[:1] + stages[3:]}, "head") is None
