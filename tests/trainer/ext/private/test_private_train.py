"""[private] the whole way: from a recipe to a bundle's promise, and what takes the promise away."""

import contextlib
import hashlib
import json
import shutil
from types import SimpleNamespace

import jsonschema
import keras
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer import datasets
from edgeveil.trainer.audit.sections.training import promised
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.export import export, golden
from edgeveil.trainer.export import export as exporting
from edgeveil.trainer.ext.private import cover, encoder, train_encoder
from edgeveil.trainer.ext.private import noise as dpsgd
from edgeveil.trainer.ext.private.noise import Secret, Shares
from edgeveil.trainer.ext.private.per_example import Claim
from edgeveil.trainer.recipe.private import Private
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Checkpoint, Run
from edgeveil.trainer.train import train
from tests.support.checkout import ROOT
from tests.support.small_runs import private_recipe, small_recipe, write_npz

pytestmark = pytest.mark.usefixtures("coarse_accountant")
SCHEMAS = ROOT / "docs/reference/schemas"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("private")
    return train(private_recipe(write_npz(folder, rows=2000)), folder / "run")


@pytest.fixture(scope="module")
def exported(run):
    return exporting.export(run.folder, ["coral-dev-board"], run.folder.parent / "export")


def test_the_run_says_what_was_spent_on_whom(run):
    spent = Run.open(run.folder).facts["private"]
    fit, _ = fit_and_validation(run.dataset(), "perturber")
    assert (spent["unit"], spent["units"]) == ("row", len(fit))
    assert (spent["encoder"]["begun"], spent["encoder"]["kept"]) == (20, 20)
    assert spent["encoder"]["epsilon"] + spent["pictures"]["epsilon"] <= 8.0
    assert spent["encoder"]["rate"] == 128 / len(fit)


def test_its_pictures_are_noisy_means_and_near_them(run):
    fit, _ = fit_and_validation(run.dataset(), "perturber")
    u = run.dataset().unit(fit.x)
    means = np.stack([u[fit.y == label].mean(axis=0) for label in (0, 1)])
    off = np.abs(run.perturber().tables["means"] - means)
    assert 0 < off.max() < 0.5  # 7 deviations of the noise


def test_what_ships_is_marked_and_the_sentence_stands(exported):
    assert exported.manifest["training"] == {
        "epsilon": 8.0,
        "delta": 1e-4,
        "unit": "row",
        "neighbours": "add or remove",
        "marks": {
            "models": {"classifier": "private: DP-SGD, 0.9 of the budget"},
            "tables": {"means": "private: Gaussian mechanism, 0.1 of the budget"},
            "range": "public",
            "calibration": "public",
        },
    }
    schema = json.loads((SCHEMAS / "manifest.schema.json").read_text())["properties"]["training"]
    jsonschema.validate(exported.manifest["training"], schema)
    found = cover.section(exported.manifest)
    assert found["given"]
    one = promised("training", found, "[private]").as_json()
    jsonschema.validate(one, json.loads((SCHEMAS / "audit.schema.json").read_text())["$defs"]["finding"])


def test_no_training_row_is_calibrated_on_or_sets_a_tolerance(run, tmp_path, monkeypatch):
    seen = {}
    calibration, tolerance = exporting.runners.calibration, golden.tolerance

    def calibrated(fitted, x, rng):
        seen["x"] = x
        return calibration(fitted, x, rng)

    def tolerated(fitted, precision, pairs):
        seen["rows"] = [len(one["label"]) for one, _ in pairs]
        return tolerance(fitted, precision, pairs)

    monkeypatch.setattr(exporting.runners, "calibration", calibrated)
    monkeypatch.setattr(export.golden, "tolerance", tolerated)
    exporting.export(run.folder, ["coral-dev-board"], tmp_path / "export")
    synthetic = golden.candidates(run.perturber()).x
    np.testing.assert_array_equal(seen["x"], synthetic)
    assert seen["rows"] == [len(synthetic)]


def test_calibration_on_the_slice_takes_the_sentence_away(run, tmp_path, monkeypatch):
    samples = exporting.calibration_samples

    def on_the_slice(source, fitted, rng):
        plain = SimpleNamespace(recipe=source.recipe.model_copy(update={"private": None}), dataset=source.dataset)
        return samples(plain, fitted, rng)

    monkeypatch.setattr(exporting, "calibration_samples", on_the_slice)
    found = cover.section(exporting.export(run.folder, ["coral-dev-board"], tmp_path / "export").manifest)
    assert not found["given"]
    assert "the calibration depends on them without noise" in found["sentence"]


def test_marks_turned_to_data_take_the_sentence_away(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    path = folder / "perturber" / "perturber.json"
    told = json.loads(path.read_text())
    told["training"]["marks"]["models"]["classifier"] = "data"
    del told["training"]["marks"]["tables"]["means"]
    path.write_text(json.dumps(told))
    found = cover.section(exporting.export(folder, ["coral-dev-board"], tmp_path / "export").manifest)
    assert found["unpaid"] == ["the network classifier", "the table means"]
    assert not found["given"]


def test_a_run_that_is_resumed_spends_nothing_again(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    shutil.rmtree(folder / "perturber")  # as if it was killed before it was written
    again = train(run.recipe, folder, resume=True)
    np.testing.assert_array_equal(again.perturber().tables["means"], run.perturber().tables["means"])
    for one, other in zip(again.perturber().models["classifier"].get_weights(), weights(run), strict=True):
        np.testing.assert_array_equal(one, other)


def weights(run):
    return run.perturber().models["classifier"].get_weights()


def test_another_run_has_other_noise(run, tmp_path):
    again = train(run.recipe, tmp_path / "run", classifiers=run.folder)
    assert not np.array_equal(again.perturber().tables["means"], run.perturber().tables["means"])
    assert not np.array_equal(weights(again)[0], weights(run)[0])


@pytest.mark.parametrize(
    ("asked", "words"),
    [({"delta": 0.01}, "below 1 / "), ({"lot": 5000}, "private.lot"), ({"unit": "subject"}, "do not say whose")],
)
def test_a_budget_that_does_not_fit_is_refused_before_anything_is_trained(run, tmp_path, asked, words):
    table = run.recipe.model_dump(exclude_none=True)
    recipe = Recipe.check({**table, "private": {**table["private"], **asked}})
    with pytest.raises(BadInput, match=words):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_without_private_a_run_is_what_it_was(tmp_path):
    """Pinned: which rows each slice and hold-out has, and what is learned of them."""
    dataset = datasets.load(Recipe.find("digits-label-only"))
    rows = [dataset.slices.rows(), *(one.index for one in fit_and_validation(dataset, "perturber"))]
    digest = hashlib.sha256(np.concatenate(rows).astype(np.int64).tobytes()).hexdigest()
    assert digest[:16] == "51a94767fd0f3a35"
    own = {"kind": "label-only", "network": "table1-wifi"}
    recipe = small_recipe(write_npz(tmp_path, seed=[0]), kind="label-only", perturber=own, epochs=1)
    extremes = recipe.data.model_copy(update={"bounds": "from-training"})  # rounded outward to two digits
    fitted = train(recipe.model_copy(update={"seed": 0, "data": extremes}), tmp_path / "run").perturber()
    assert fitted.tables["means"].sum(dtype=np.float64) == pytest.approx(6.562005802989006, abs=1e-5)
    norms = [float(np.linalg.norm(one)) for one in fitted.models["classifier"].get_weights()]
    assert norms == pytest.approx(
        [3.414048, 0.0784492, 13.13043, 0.0640949, 9.280076, 0.0472846, 2.022228, 0.00865156], rel=2e-3
    )
    assert "training" not in fitted.description()


# DP-SGD that is killed and goes on: every step that was begun counts, and no lot or noise comes twice.


RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, 1000)
U = (RNG.random((1000, 4)) / 2 + Y[:, None] / 2).astype(np.float32)
ROWS = list(np.arange(1000)[:, None])


class Log:
    """Checkpoints in a folder, as a run's."""

    def __init__(self, folder):
        self.folder = folder

    def checkpoint(self, name, **holders):
        return Checkpoint(self.folder / f"{name}.npz", **holders)


class Lots(Secret):
    """Secret noise that keeps how many lots were drawn, and fails in one of them as a killed process would."""

    def __init__(self, fails_in=None):
        super().__init__()
        self.drawn, self._fails_in = 0, fails_in

    def uniform(self, shape):
        if shape == (1000,):
            self.drawn += 1
            if self.drawn == self._fails_in:
                raise RuntimeError("killed")
        return super().uniform(shape)


def asked(**changes):
    """A budget of 40 steps, without the accountant: what is spent is not asked here."""
    claim = Claim(8.0, 1e-5, 0.1, 0.9, 40, rdp=8.0, pld=8.0, grid=1e-4, accountant="")
    settings = Private(
        **{"epsilon": 8.0, "delta": 1e-5, "lot": 100, "steps": 40, "learning_rate": 0.1, "average": False, **changes}
    )
    return Shares(settings, 1000, dpsgd.Plan(1000, 100, 40, 1.0, claim), claim)


def network():
    keras.utils.set_random_seed(0)
    vector = keras.Input((4,))
    return keras.Model(vector, keras.layers.Dense(2)(vector))


def trained(folder, noise=None, **changes):
    model = network()
    told = train_encoder(model, U, Y, ROWS, asked(**changes), noise=noise or Secret(), log=Log(folder))
    return model, told


def test_it_learns_in_the_steps_of_the_plan(tmp_path):
    noise = Lots()
    model, told = trained(tmp_path, noise)
    assert told == {"begun": 40, "kept": 40}
    assert noise.drawn == 40
    assert (np.asarray(model(U)).argmax(axis=1) == Y).mean() > 0.9


def test_what_was_begun_before_a_kill_is_spent(tmp_path):
    with pytest.raises(RuntimeError, match="killed"):
        trained(tmp_path, Lots(fails_in=14))
    again = Lots()
    _, told = trained(tmp_path, again)
    assert again.drawn == 20  # of 40, 20 were written down as begun
    assert told == {"begun": 40, "kept": 30}


def test_a_run_killed_again_and_again_never_draws_more_lots_than_planned(tmp_path):
    drawn = 0
    for _ in range(5):
        noise = Lots(fails_in=3)
        with contextlib.suppress(RuntimeError):
            trained(tmp_path, noise)
        drawn += noise.drawn
    assert drawn <= 40
    _, told = trained(tmp_path, noise := Lots())
    assert noise.drawn == 0
    assert told == {"begun": 40, "kept": 0}


def test_a_finished_training_spends_nothing_more_and_gives_the_same_weights(tmp_path):
    model, _ = trained(tmp_path)
    again, _ = trained(tmp_path, noise := Lots())
    assert noise.drawn == 0
    for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_average_is_that_of_the_second_half(tmp_path, monkeypatch):
    seen = []
    plain = dpsgd.train

    def watched(model, *args, after, **settings):
        def noted(number):
            seen.append(model.get_weights())
            after(number)

        plain(model, *args, after=noted, **settings)

    monkeypatch.setattr(encoder, "train", watched)
    model, _ = trained(tmp_path, average=True)
    expected = [np.mean(part, axis=0) for part in zip(*seen[20:], strict=True)]
    for one, other in zip(model.get_weights(), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
