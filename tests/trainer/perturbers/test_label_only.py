"""Label-only: nothing but the predicted class leaves, drawn as that class's mean."""

import numpy as np
import pytest

from edgeveil.trainer import datasets
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.audit.findings import FIXED, LABEL_ONLY, Finding
from edgeveil.trainer.audit.floor import Floor
from edgeveil.trainer.perturbers import label_only
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.listing import find
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.train import train
from tests.support.small_runs import small_recipe, small_run
from tests.support.trial import short_audit


@pytest.fixture(scope="module")
def run():
    return small_run(kind="label-only")


def test_readings_of_one_class_leave_alike(run):
    dataset = run.dataset()
    test = dataset.part("test")
    sent = run.perturber().perturb(test.x)
    assert sorted(sent) == ["frame", "label"]
    assert len(np.unique(sent["frame"], axis=0)) == 2
    assert (sent["label"] == test.y).mean() > 0.9
    means = dataset.part("perturber")
    expected = np.stack([dataset.unit(means.x[means.y == label]).mean(axis=0) for label in (0, 1)])
    np.testing.assert_allclose(dataset.unit(sent["frame"]), expected[sent["label"]], atol=1e-5)


def worn(folder, form):
    """Windows of a worn sensor, people kept apart: y is how much it moves, so that a class's mean shows nothing of it.

    ``form`` is "series" or "flat".
    """
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, (2, 900))
    x = (rng.normal(size=(900, 12, 2)) * (1 + 5 * y)[:, None, None] + 0.3 * z[:, None, None]).astype(np.float32)
    path = folder / f"{form}.npz"
    np.savez(path, x=x if form == "series" else x.reshape(900, -1), y=y, z=z, subject=np.arange(900) // 15)
    series = {"rate_hz": 20.0, "channels": ["ax", "ay"], "units": ["g", "g"], "hop": 6}
    data = {"source": f"npz:{path}", "target": "y", "sensitive": "z"}
    return data if form == "flat" else {**data, "kind": "series", "series": series}


@pytest.mark.parametrize("form", ["series", pytest.param("flat", marks=pytest.mark.nightly)])
def test_it_meets_its_own_limit_wherever_its_label_does(form, tmp_path, monkeypatch):
    """D_y reads one class in all class means; the label that is sent says which it is."""
    recipe = small_recipe(
        "",
        kind="label-only",
        floor=0.65,
        data=worn(tmp_path, form),
        classifiers={"architecture": "series" if form == "series" else "table1-wifi", "learning_rate": 3e-3},
        budget={"classifier_epochs": 16, "epochs": 1, "batch": 16},
    )
    run = train(recipe, tmp_path / "run")
    facts = run.facts["validation"]
    assert run.facts["limit_met"]
    assert facts["target_accuracy"] < 0.6 < 0.65 <= facts["reader_accuracy"]
    assert facts["reader"] == "the label that is sent"
    assert find(tmp_path)[0].keeps == facts["reader_accuracy"]
    short_audit.shorten(monkeypatch)
    floor = Floor.from_run(run, BUDGETS["quick"], 0, tmp_path / "floor").document()
    reads = [one for one in map(Finding.from_json, floor) if (one.question, one.kind) == ("y", "reader")]
    reader = max((one for one in reads if one.of == LABEL_ONLY), key=lambda one: one.chosen_by or 0.0)
    fixed = next(one for one in reads if one.of == LABEL_ONLY and one.name == FIXED)
    assert reader.name == "the label that is sent"
    assert reader.value > 0.65 > 0.6 > fixed.value


def test_the_target_network_ships_unless_the_recipe_asks_for_a_small_one(run, tmp_path):
    own_network = {"kind": "label-only", "network": "table1-wifi"}
    own = train(
        small_recipe(run.folder.parent / "small.npz", kind="label-only", perturber=own_network),
        tmp_path / "own",
        classifiers=run.folder,
    )
    u = run.dataset().unit(run.validation().x)

    def same(one):
        ships, target = one.perturber().models["classifier"], one.classifiers()["target"]
        return np.array_equal(np.asarray(ships(u)), np.asarray(target(u)))

    assert same(run)
    assert not same(own)
    assert {line["stage"] for line in own.metrics()} == {"perturber"}


def test_the_audit_gets_its_row_from_a_run_of_any_kind(run, tmp_path):
    recipe = small_recipe(run.folder.parent / "small.npz", epochs=1)
    run = train(recipe, tmp_path / "run", classifiers=run.folder)
    before = run.metrics()
    fitted = label_only.from_classifier(run.dataset().for_training(), run.classifiers()["target"])
    assert isinstance(fitted, FittedPerturber)
    assert fitted.kind == "label-only"
    assert run.metrics() == before


def test_a_saved_perturber_comes_back_the_same(run):
    again = Run.open(run.folder).perturber()
    x = datasets.load(run.recipe).x
    for name, values in run.perturber().perturb(x).items():
        np.testing.assert_array_equal(values, again.perturb(x)[name])
