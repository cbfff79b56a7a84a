"""[head]: what it refuses, whom it guards, what it leaves in a run, and what an export makes of it."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer import datasets
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.export.export import export
from edgeveil.trainer.export.head import with_head
from edgeveil.trainer.ext.private import cover
from edgeveil.trainer.ext.private import encoder as private_head
from edgeveil.trainer.perturbers.label_only import with_means
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Head
from edgeveil.trainer.train import train
from tests.support.small_runs import private_recipe, small_recipe, write_npz

pytestmark = pytest.mark.usefixtures("coarse_accountant")


def asked(recipe, head, **sections):
    return Recipe.check({**recipe.model_dump(exclude_none=True), "head": head, **sections})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_npz(tmp_path_factory.mktemp("head"), rows=2000)


@pytest.fixture(scope="module")
def run(data):
    """Without [private], with a head whose noise is of a seed."""
    plain = small_recipe(
        data,
        kind="label-only",
        data={"source": f"npz:{data}", "target": "y", "sensitive": "z", "low": -5.0, "high": 10.0},
    )
    head = {"kind": "logistic", "epsilon": 5.0, "random_state": 3}
    return train(asked(plain, head), data.parent / "run")


def fitted(recipe, frames=lambda x: x):
    dataset = datasets.load(recipe).for_training()
    private_head.check(recipe, dataset)
    return private_head.fit(recipe.head, dataset, frames), dataset


@pytest.mark.parametrize(
    "head",
    [
        {"kind": "logistic", "data_norm": 1.5, "epsilon": 8.0},
        {"kind": "huber-svm", "method": "output", "data_norm": 1.5, "epsilon": 20.0, "regularization": 0.01},
        {"kind": "functional-logistic", "epsilon": 40.0, "sensitive": [1], "gamma": 0.5},
        {"kind": "dp-sgd", "epsilon": 8.0, "data_norm": 1.5, "steps": 50},
    ],
    ids=lambda head: head["kind"],
)
def test_every_kind_reads_y_and_promises_its_own_epsilon(data, head):
    (found, facts), dataset = fitted(asked(private_recipe(data), head))
    part = dataset.part("perturber")
    assert (found.predict(dataset.unit(part.x)) == part.y).mean() > 0.6
    assert found.promise["epsilon"] == pytest.approx(head["epsilon"], rel=1e-2)
    assert found.promise["epsilon"] <= head["epsilon"]
    assert (found.promise["unit"], facts["rows"]) == ("row", len(dataset.part("classifiers")))
    assert found.weights.shape == (2, 6)


def test_the_head_learns_of_the_first_slice_alone(data):
    recipe = asked(private_recipe(data), {"kind": "logistic", "epsilon": 8.0, "random_state": 0})
    (before, _), dataset = fitted(recipe)
    y = dataset.y.copy()
    y[dataset.slices.perturber] = 1 - y[dataset.slices.perturber]
    other, _ = private_head.fit(recipe.head, replace(dataset, y=y), lambda x: x)
    np.testing.assert_array_equal(other.weights, before.weights)


def test_of_people_each_gives_one_reading_and_people_are_guarded(tmp_path):
    people = np.arange(3000) // 6
    path = write_npz(tmp_path, rows=3000, subject=people)
    recipe = asked(private_recipe(path, lot=32), {"kind": "logistic", "epsilon": 8.0})
    (found, facts), dataset = fitted(recipe)
    mine = people[datasets.load(recipe).slices.classifiers]
    assert facts["rows"] == len(np.unique(mine)) < len(dataset.part("classifiers"))
    assert found.promise["unit"] == "subject"
    assert "one reading of each subject, drawn at random" in found.promise["given"]


def test_what_leaves_is_what_a_head_of_what_is_sent_learns_of(data):
    recipe = asked(private_recipe(data), {"kind": "logistic", "of": "sent", "epsilon": 8.0})
    seen = []
    (found, _), dataset = fitted(recipe, lambda x: seen.append(len(x)) or np.zeros_like(x))
    assert seen == [len(dataset.part("classifiers"))]
    assert found.of == "sent"


def test_a_solver_that_does_not_end_is_refused_with_what_to_change(data, monkeypatch):
    monkeypatch.setattr("edgeveil.trainer.ext.private.estimators.perturbed_risk.MOST_STEPS", 1)
    with pytest.raises(BadInput, match=r"nothing is promised.*Raise `head\.regularization`"):
        fitted(asked(private_recipe(data), {"kind": "logistic"}))


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ({"kind": "dp-sgd", "lot": 5000}, "head.lot"),
        ({"kind": "dp-sgd", "delta": 0.01}, "below 1 / "),
        ({"kind": "functional-logistic", "sensitive": [6]}, "columns of 0 to 5; got 6"),
    ],
)
def test_what_does_not_fit_the_data_is_refused_before_anything_is_trained(data, tmp_path, head, words):
    with pytest.raises(BadInput, match=words):
        train(asked(private_recipe(data), head), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("head", "sections", "words"),
    [
        ({"kind": "logistic", "epsilon": 0.0}, {}, "head.epsilon"),
        ({"kind": "logistic", "epsilon": 50.1}, {}, "head.epsilon"),
        ({"kind": "logistic", "regularization": 0.0}, {}, "head.regularization"),
        ({"kind": "dp-sgd", "clip": 0.0}, {}, "head.clip"),
        ({"kind": "functional-logistic", "gamma": 1.1}, {}, "head.gamma"),
        ({"kind": "forest"}, {}, "logistic"),
        (
            {"kind": "logistic"},
            {
                "perturber": {"kind": "label-only", "network": "table1-wifi", "epsilon": 1.0},
                "spending": {"unit": "release", "most": 10.0},
            },
            'head.of = "sent", since what is promised',
        ),
    ],
)
def test_a_recipe_that_means_nothing_is_refused_in_a_sentence(data, head, sections, words):
    with pytest.raises(BadInput, match=words):
        asked(private_recipe(data), head, **sections)


@pytest.mark.parametrize(("name", "words"), [("wq", "no range"), ("digits-local", "no sample")])
def test_kinds_without_samples_of_a_range_have_no_head(name, words):
    with pytest.raises(BadInput, match=words):
        asked(Recipe.find(name), {"kind": "logistic"})


def test_a_codebook_that_sends_whole_pictures_has_no_head_of_them():
    recipe = asked(Recipe.find("digits-codebook"), {"kind": "logistic", "of": "sent"})
    with pytest.raises(BadInput, match="whole pictures of a table"):
        fitted(recipe)


@pytest.mark.nightly  # by day that a seed promises nothing: test_estimators.py
def test_a_head_of_a_seed_promises_nothing_and_is_not_exported(run, tmp_path):
    assert run.facts["head"]["promise"] is None
    with pytest.raises(BadInput, match=r"head\.random_state"):
        export(run.folder, ["workstation"], tmp_path / "export", emit="both")
    assert not (tmp_path / "export").exists()


@pytest.mark.nightly  # by day that a head ships: test_private_bundle.py
def test_without_private_the_head_ships_and_nothing_is_promised_of_it(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    promise = {"epsilon": 5.0, "delta": 0.0, "unit": "row", "neighbours": "replace", "covers": "the head"}
    head = replace(Head.of_run(folder), promise=promise)
    head.save(folder)
    exported = export(folder, ["coral-dev-board"], tmp_path / "export", emit="both")
    assert [one["name"] for one in exported.manifest["outputs"]] == ["frame", "label", "head"]
    assert "training" not in exported.manifest
    found = cover.head_section(exported.manifest, head.mechanism, promise)
    assert not found["given"]
    assert "without [private]" in found["sentence"]
    with pytest.raises(BadInput, match="--spending measures what a training"):
        audit(exported.folder, spending=True)


def test_a_run_without_a_head_has_none_to_emit(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    (folder / "head.npz").unlink()
    with pytest.raises(BadInput, match=r"a section \[head\]"):
        export(folder, ["workstation"], tmp_path / "export", emit="both")


@pytest.mark.nightly  # by day a run without a head: test_private_train.py
def test_a_run_that_is_resumed_keeps_its_head(run, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    monkeypatch.setattr(private_head, "fit", None)
    train(run.recipe, folder, resume=True)
    np.testing.assert_array_equal(Head.of_run(folder).weights, Head.of_run(run.folder).weights)
    (folder / "head.npz").write_bytes(b"PK no")
    with pytest.raises(BadInput, match="Train again"):
        Head.of_run(folder)


def test_another_head_than_the_bundles_is_not_promised(run):
    model, spec = run.classifiers()["target"], run.dataset().input
    plain = with_means(run.dataset(), model, np.zeros((2, *spec.shape), np.float32))
    promise = {"epsilon": 5.0, "delta": 0.0, "unit": "row", "neighbours": "replace", "covers": "the head"}
    head = replace(Head.of_run(run.folder), promise=promise)
    marks = {"models": {"classifier": "public"}, "tables": {"means": "public"}, "range": "public"}
    asked_for = {"epsilon": 8.0, "delta": 1e-5, "unit": "row", "neighbours": "add or remove", "marks": marks}
    manifest = with_head(replace(plain, training=asked_for), head).description()
    manifest |= {"models": {"classifier": {}, "head": {}}, "tables": {"means": {}}}
    manifest["training"]["marks"]["calibration"] = "public"
    assert cover.head_section(manifest, head.mechanism, promise)["given"]
    found = cover.head_section(manifest, head.mechanism, {**promise, "epsilon": 1.0})
    assert not found["given"]
    assert "another head than the bundle" in found["sentence"]
