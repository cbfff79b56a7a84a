"""Training stops after a D_y that does not read y, with the figures and the cure, before anything else is trained."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.networks import training
from edgeveil.trainer.networks.training import build
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.train import train
from tests.support.small_runs import small_recipe, write_npz

NORMED = {"architecture": "normed-mlp", "learning_rate": 3e-3}


def test_the_margin_is_a_share_of_what_is_left_above_guessing():
    assert training.beats_guessing(0.53, 0.5)
    assert not training.beats_guessing(0.51, 0.5)
    assert training.beats_guessing(0.972, 0.97)
    assert not training.beats_guessing(0.971, 0.97)


def test_a_y_that_is_not_in_x_ends_training_before_the_perturber(tmp_path):
    path = write_npz(tmp_path, x=np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32))
    with pytest.raises(LimitNotMet, match=r"D_y reads y in \d+\.\d% of the second slice; always guessing") as caught:
        train(small_recipe(path, floor=0.9, classifiers=NORMED), tmp_path / "run")
    assert caught.value.exit_code == 3
    assert 'take `classifiers.architecture = "table1-wifi"`' in str(caught.value)
    run = Run.open(tmp_path / "run")
    assert set(run.facts["classifiers"]) == {"target"}  # not even D_z
    with pytest.raises(LimitNotMet, match="before the perturber"):
        train(small_recipe(path, floor=0.9, classifiers=NORMED), tmp_path / "run", resume=True)


@pytest.mark.parametrize(("look", "far"), [(0.9, False), (1.0, True)])
def test_a_d_y_far_below_the_look_ends_it_too(look, far, monkeypatch, tmp_path, capsys):
    """A D_y that reads y in 85 %: ten points below a look of 100 %, and not of 90 %."""
    monkeypatch.setattr(training, "unseen_accuracy", lambda *_: (0.85, 0.5))
    path = write_npz(tmp_path)
    recipe = small_recipe(path, kind="label-only", floor=0.6, classifiers={**NORMED, "look": look})
    if not far:
        assert train(recipe, tmp_path / "run").facts["state"] == "finished"
        return
    with pytest.raises(LimitNotMet, match=r"85\.0%.*50\.0%, and the look of `recipe new` read 100\.0%.*lower `class"):
        train(recipe, tmp_path / "run")
    train(recipe, tmp_path / "quick", budget="quick")
    assert "D_y reads y in 85.0%" in capsys.readouterr().err  # a trial is no error


def test_a_normed_network_reads_measurements_of_a_tiny_scale_beside_an_outlier(tmp_path):
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, (2, 300))
    x = rng.normal(size=(300, 6)) + 6 * np.outer(y, np.eye(6)[0])
    x[:, 5] = 7.0  # it never varies
    x[5] += 1e7  # one broken sample
    path = write_npz(tmp_path, x=(1e-6 * x).astype(np.float32), y=y, z=z)
    run = train(small_recipe(path, kind="label-only", classifiers={**NORMED, "look": 0.97}), tmp_path / "run")
    assert run.facts["validation"]["target_accuracy"] >= 0.9


def test_what_no_code_can_be_pictured_of_is_said_before_any_training(tmp_path):
    codebook = {"kind": "codebook", "keep": ["pixels"], "codes": 2, "fewest_subjects": 200}
    with pytest.raises(BadInput, match=r"at least 200 different people, and y \"[01]\" has \d+ .*fewest_subjects"):
        train(small_recipe(write_npz(tmp_path), perturber=codebook), tmp_path / "run")
    assert "classifiers" not in Run.open(tmp_path / "run").facts


@pytest.mark.parametrize(
    ("name", "shape"), [("normed-cnn", (9, 20, 2)), ("normed-cnn", (28, 28, 1)), ("small", (4, 5, 1))]
)
def test_networks_for_pictures_are_small_and_fit_any(name, shape):
    from edgeveil.trainer.datasets.base import InputSpec

    model = build(name, InputSpec("image", shape, "float32", 0.0, 1.0), 3)
    assert model.output_shape == (None, 3)
    assert model.count_params() < 300_000
