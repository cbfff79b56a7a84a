"""Small made-up data and recipes that train in a second or two, for tests of the trainer."""

import hashlib

import numpy as np

from edgeveil.trainer.datasets import readings
from edgeveil.trainer.datasets.loaders.wrist import Wrist
from edgeveil.trainer.perturbers.base import Goal
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.train import train
from tests.support import once, seeds

ROWS, FEATURES = 300, 6


def write_npz(folder, *, seed=0, rows=ROWS, **changes):
    """An .npz in which y moves feature 0 and z moves feature 1; returns its path."""
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, 2, rows), rng.integers(0, 2, rows)
    x = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    x[:, 0] += 4 * y
    x[:, 1] += 4 * z
    path = folder / "small.npz"
    np.savez(path, **{"x": x, "y": y, "z": z, **changes})
    return path


def write_watch(folder, monkeypatch):
    """The data set wrist, made up, in ``folder``, where data sets are then looked for: 450 steps of each recording."""
    rng = np.random.default_rng(3)
    of = np.array([(y, person, arm) for y in range(7) for person in range(1, 11) for arm in (0.0, 1.0)])
    recordings = [rng.normal(one[0], 1, (450, 6)) for one in of]
    stored = {"X": recordings, "y": of[:, 0].astype(int), "subject": of[:, 1].astype(int), "side": of[:, 2]}
    (name,) = Wrist.files
    path = folder / name
    path.parent.mkdir()
    np.save(path, np.array(stored, dtype=object), allow_pickle=True)
    monkeypatch.setenv(readings.VARIABLE, str(folder))
    monkeypatch.setattr(Wrist, "files", {name: hashlib.sha256(path.read_bytes()).hexdigest()})
    return of


def small_recipe(path, *, kind="prgan", epochs=4, floor=0.5, **sections):
    """A recipe for such a file; ``sections`` replace whole sections."""
    perturbers = {
        "prgan": {
            "kind": "prgan",
            "alpha": 5.0,
            "distance": 0.5,
            "learning_rate": 5e-3,
            "generator": {"architecture": "mlp", "width": 16, "blocks": 1},
        },
        "label-only": {"kind": "label-only"},
    }
    table = {
        "name": f"small-{kind}",
        "seed": seeds.seed(0),
        "data": {"source": f"npz:{path}", "target": "y", "sensitive": "z"},
        "prior": {"kind": "counted"},
        "classifiers": {"architecture": "table1-wifi", "learning_rate": 3e-3},
        "perturber": perturbers[kind],
        "budget": {"classifier_epochs": 8, "epochs": epochs, "batch": 16},
        "limits": {"target_accuracy": floor},
    }
    return Recipe.check({**table, **sections})


def small_run(**asked):
    """The run of ``small_recipe(path, **asked)`` on its data, which lie next to it: trained once for all tests.

    A test that changes it works on a copy (``once.copied``).
    """

    def make(folder):
        train(small_recipe(write_npz(folder), **asked), folder / "run")

    words = small_recipe("small.npz", **asked).toml()
    return Run.open(once.made(f"small-{hashlib.sha256(words.encode()).hexdigest()[:16]}", make) / "run")


def private_recipe(path, **asked):
    """Label-only under [private] for such a file of at least 1,200 rows; ``asked`` replaces keys of the section."""
    return small_recipe(
        path,
        kind="label-only",
        data={"source": f"npz:{path}", "target": "y", "sensitive": "z", "low": -5.0, "high": 10.0},
        prior={"kind": "uniform"},
        floor=0.05,
        perturber={"kind": "label-only", "network": "table1-wifi"},
        private={"epsilon": 8.0, "delta": 1e-4, "lot": 128, "steps": 20, "learning_rate": 5e-3, **asked},
    )


def fit_codebook(run):
    """What the kind's own ``fit`` makes of a run that has no D_y and D_z."""
    recipe = run.recipe
    goal = Goal(recipe.limits, recipe.classifiers)
    rng = np.random.default_rng(0)
    return recipe.perturber.fit(run.dataset().for_training(), goal=goal, rng=rng, budget=recipe.budget, log=run)


CLEANER = """
name = "made-up"
[data]
source = "npz:made-up.npz"
target = "kind"
sensitive = "person"
wanted = 1
[prior]
kind = "counted"
[classifiers]
architecture = "linear"
[perturber]
kind = "cleaner"
eps = 0.01
[budget]
classifier_epochs = 1
epochs = 1
[limits]
target_accuracy = 0.5
"""


def cleaner(folder):
    """A cleaner in ``folder``/run: one label to keep and two to hide, of their own directions, so that it can."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 8)).astype(np.float32)
    labels = x[:, :3] * 3 + rng.normal(size=(600, 3)) * 0.5
    np.savez(folder / "made-up.npz", x=x, y=labels[:, 0] > 0, z=labels[:, 1] > 0, labels=labels)
    recipe = Recipe.parse(CLEANER, folder=folder).model_copy(update={"seed": seeds.seed(0)})
    return train(recipe, folder / "run")
