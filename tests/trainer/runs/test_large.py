"""Training on samples that stay on disk: the same as in memory, on one device or two, or refused."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.audit.text import headline
from edgeveil.trainer.datasets import samples, slicing
from edgeveil.trainer.datasets.samples import Stored
from edgeveil.trainer.export.export import export
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.train import train
from tests.support.small_runs import cleaner, private_recipe, small_recipe, small_run, write_npz


@pytest.fixture
def on_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(samples, "IN_MEMORY", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def stored(recipe, folder, monkeypatch):
    """The run of a recipe on samples that stay on disk."""
    monkeypatch.setattr(samples, "IN_MEMORY", 1)
    run = train(recipe, folder)
    assert isinstance(run.dataset().x, Stored)
    return run


def assert_alike(one, other):
    assert one.facts["data_sha256"] == other.facts["data_sha256"]
    assert one.dataset().input == other.dataset().input
    for name, model in one.perturber().models.items():
        for a, b in zip(model.get_weights(), other.perturber().models[name].get_weights(), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)
    for name, table in one.perturber().tables.items():
        np.testing.assert_allclose(table, other.perturber().tables[name], atol=1e-6)
    assert one.facts["validation"] == pytest.approx(other.facts["validation"], abs=1e-4)


def test_vectors_train_as_in_memory(tmp_path, monkeypatch):
    """D_y, D_z and PR-GAN."""
    whole = small_run()
    assert_alike(whole, stored(whole.recipe, tmp_path / "run", monkeypatch))


@pytest.fixture(scope="module")
def pictured(tmp_path_factory):
    """A run of label-only on pictures, in memory."""
    folder = tmp_path_factory.mktemp("pictured")
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, (2, 900))
    x = rng.integers(0, 60, (900, 8, 8), np.uint8)
    x[:, :4] += (120 * y[:, None, None]).astype(np.uint8)
    x[:, :, :4] += (60 * z[:, None, None]).astype(np.uint8)
    recipe = small_recipe(
        write_npz(folder, rows=900, x=x, y=y, z=z),
        kind="label-only",
        classifiers={"architecture": "small", "shift": 1},
        budget={"classifier_epochs": 1, "epochs": 1, "batch": 64},
    )
    return train(recipe, folder / "run")


@pytest.mark.nightly  # by day vectors, above
def test_pictures_train_as_in_memory(pictured, tmp_path, monkeypatch):
    """Whole numbers, moved by a pixel; and class means."""
    assert_alike(pictured, stored(pictured.recipe, tmp_path / "run", monkeypatch))


def test_an_audit_takes_a_stated_sample(pictured, tmp_path, monkeypatch, capsys):
    """The run may be one that was trained in memory: the data are the same."""
    monkeypatch.setattr(samples, "IN_MEMORY", 1)
    monkeypatch.setattr(slicing, "ATTACK_ROWS", 100)
    monkeypatch.setattr(slicing, "SAMPLE_BYTES", 100 * 64 * 4)
    monkeypatch.setitem(BUDGETS, "quick", replace(BUDGETS["quick"], rows=100, epochs=1, trees=5, macs=1e6))
    folder = export(pictured.folder, ["raspberry-pi-cpu"], tmp_path / "export")
    document = audit(folder.folder, artefact="tflite-int8")
    assert document["data"]["sampled_from"] == dict.fromkeys(("classifiers", "perturber", "attack", "test"), 225)
    assert set(document["data"]["rows"].values()) == {100}
    assert "100 of 225 test rows" in headline(document)
    assert "the audit takes some rows of each slice, by the seed of the recipe: 100 of 225" in capsys.readouterr().err


def test_a_cleaner_is_fitted_as_in_memory(tmp_path, monkeypatch):
    for name in ("whole", "stored"):
        (tmp_path / name).mkdir()
    whole = cleaner(tmp_path / "whole")
    monkeypatch.setattr(samples, "IN_MEMORY", 1)
    monkeypatch.setattr(samples, "PIECE", 1000)
    assert_alike(whole, cleaner(tmp_path / "stored"))


def test_what_cannot_stream_is_refused_by_name_and_size(tmp_path, on_disk, monkeypatch):
    recipe = private_recipe(write_npz(tmp_path, rows=1600))
    monkeypatch.setattr(samples, "free_memory", lambda: 10_000)
    what = (
        r'kind "label-only" with \[private\] learns from samples in memory, and 764 samples of shape \(6,\) need 0.0 GB'
    )
    with pytest.raises(BadInput, match=what):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.nightly  # by day an audit, above
def test_a_codebook_learns_from_a_stated_sample(tmp_path, on_disk, monkeypatch, capsys):
    from edgeveil.trainer.perturbers.codebook import fit

    monkeypatch.setattr(fit, "LEARNED", 200)
    section = {"kind": "codebook", "codes": 2, "keep": ["pixels"], "steps": 20, "synthesis": "centroid"}
    recipe = small_recipe(write_npz(tmp_path, rows=1600), epochs=1, perturber=section)
    run = train(recipe, tmp_path / "run")
    assert run.facts["learned_from"] == "200 of 400 (classifiers), 200 of 400 (perturber)"
    assert "A codebook is learned in memory, from some rows of each slice: 200 of 400" in capsys.readouterr().err


TWO_DEVICES = """
import sys
from pathlib import Path
import numpy as np
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras
from edgeveil.trainer.datasets import samples
from edgeveil.trainer.networks.feeding import on_every_device
from edgeveil.trainer.networks.training import train_one
from edgeveil.trainer.recipe.training_sections import Classifiers
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.scaffold.first_look import _Nowhere
from edgeveil.trainer.train import train

one, out = Run.open(Path(sys.argv[1])), Path(sys.argv[2])
part = one.dataset().part("classifiers")
rows, learned = (part.x[:96], part.y[:96]), []
for distribute in (False, True):
    with on_every_device(distribute):
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2, kernel_initializer="ones")])
        folder = out.with_name(f"log-{distribute}")
        folder.mkdir()
        settings = Classifiers(architecture="table1-wifi", learning_rate=0.01)
        words = {"settings": settings, "batch": 16, "epochs": 2, "seed": 0, "log": _Nowhere(folder), "stage": "target"}
        train_one(model, rows, rows, **words)
        learned.append(model.get_weights())
np.testing.assert_allclose(learned[0][0], learned[1][0], atol=1e-5)
assert abs(learned[0][0] - 1).max() > 0.01
samples.IN_MEMORY = 1
train(one.recipe, out, classifiers=one.folder, distribute=True)
"""


@pytest.mark.nightly  # by day one device, below
def test_two_devices_learn_what_one_does(tmp_path):
    """A classifier from memory; and PR-GAN from disk, with the classifiers of the run that it is compared with."""
    one, out = small_run(), tmp_path / "two"
    words = [sys.executable, "-c", TWO_DEVICES, str(one.folder), str(out)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Training is distributed over 2 devices: CPU:0, CPU:1.") == 3
    for a, b in zip(*(run.perturber().models["generator"].get_weights() for run in (one, Run.open(out))), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3)


def test_one_device_trains_alone_and_says_so(tmp_path, capsys):
    train(small_recipe(write_npz(tmp_path), kind="label-only"), tmp_path / "run", distribute=True)
    assert "--distribute: there is one device, CPU:0, which trains alone." in capsys.readouterr().err
