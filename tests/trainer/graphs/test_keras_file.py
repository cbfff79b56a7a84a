"""Every door that opens a Keras file refuses one with code in it, before Keras reads it."""

import json
import pickle
import zipfile
from types import SimpleNamespace

import h5py
import keras
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.graphs import keras_file
from edgeveil.trainer.graphs.cost import model_file_cost
from edgeveil.trainer.linear import linear_problem
from edgeveil.trainer.networks import own
from edgeveil.trainer.perturbers import wrapped
from edgeveil.trainer.recipe.networks import Given
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.run import Run

RAN = []
NONE = r"is no file of model\.save"
REFUSED = f"whose code would be run|{NONE}"
SPEC = InputSpec("vector", (4,), "float32", 0.0, 1.0)


@keras.saving.register_keras_serializable("strange")
class Registered(keras.layers.Layer):
    """A layer of a package of this process: safe mode runs it."""

    def call(self, x):
        RAN.append("layer")
        return x


@keras.saving.register_keras_serializable("strange")
def act(x):
    RAN.append("activation")
    return x


class Pickled:
    def __reduce__(self):
        return RAN.append, ("pickle",)


def model(*layers):
    return keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(4, name="last")])


def edited(path, change):
    """The file with ``change`` made to the config of its first layer after the input."""
    plain = path.with_stem("plain")
    model(keras.layers.Dense(4, name="first")).save(plain)
    if path.suffix == ".h5":
        path.write_bytes(plain.read_bytes())
        with h5py.File(path, "r+") as file:
            config = json.loads(file.attrs["model_config"])
            change(config["config"]["layers"][1])
            file.attrs["model_config"] = json.dumps(config)
        return
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "config.json":
                config = json.loads(data)
                change(config["config"]["layers"][1])
                data = json.dumps(config)
            new.writestr(name, data)


MADE = {
    "lambda": lambda path: model(keras.layers.Lambda(lambda v: v)).save(path),
    "registered": lambda path: model(Registered()).save(path),
    "activation": lambda path: model(keras.layers.Dense(4, activation=act)).save(path),
    "pickle": lambda path: path.write_bytes(pickle.dumps(Pickled())),
    "module": lambda path: edited(path, lambda one: one.update(module="os")),
    "registered name": lambda path: edited(path, lambda one: one.update(registered_name="strange>Registered")),
    "type": lambda path: edited(path, lambda one: one["config"].update(extra={"class_name": "__typespec__"})),
    "vocabulary": lambda path: edited(
        path, lambda one: one.update(class_name="StringLookup", config={"name": "f", "vocabulary": "/etc/passwd"})
    ),
}  # fmt: skip


def in_a_run(path):
    folder = path.parent / "classifiers"
    folder.mkdir()
    for name in ("target", "sensitive"):
        (folder / f"{name}.keras").write_bytes(path.read_bytes())
    Run(path.parent, None, {}).classifiers()


def in_a_perturber(path):
    path.rename(path.with_name("net.keras"))
    facts = {"kind": "prgan", "identity_allowed": False, "substituted": None}
    text = {"perturber": facts, "input": {"name": "x", **SPEC.as_json()}, "models": ["net"]}
    text |= {key: [] for key in ("stages", "outputs", "tables")}
    (path.parent / "perturber.json").write_text(json.dumps(text))
    FittedPerturber.load(path.parent)


def as_an_operator(path):
    rows = SimpleNamespace(classifiers=[0], training=lambda: [0])
    dataset = SimpleNamespace(slices=rows, x=np.ones((1, 4)), homogeneous=False)
    linear_problem(SimpleNamespace(operator=f"keras:{path}", ridge=0, eps=1, eps_per=""), dataset)


DOORS = {
    "cost": model_file_cost,
    "wrap": lambda path: wrapped._keras(path, SPEC, SimpleNamespace(size=None, layout=None)),
    "a trained classifier": lambda path: own.Trained(Given(trained=str(path)), SPEC, 4),
    "the classifiers of a run": in_a_run,
    "the perturber of a run": in_a_perturber,
    "a linear operator": as_an_operator,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("door", DOORS)
def test_no_door_opens_a_file_with_code(door, tmp_path):
    for number, make in enumerate(MADE.values()):
        path = tmp_path / str(number) / "given.keras"
        path.parent.mkdir()
        make(path)
        RAN.clear()
        with pytest.raises(BadInput, match=REFUSED):
            DOORS[door](path)
        assert not RAN


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("made", MADE)
def test_a_legacy_file_is_looked_at_as_well(made, tmp_path):
    path = tmp_path / "given.h5"
    MADE[made](path)
    RAN.clear()
    with pytest.raises(BadInput, match=REFUSED):
        keras_file.read(path)
    assert not RAN
    model().save(tmp_path / "plain.h5")
    assert keras_file.read(tmp_path / "plain.h5").output_shape == (None, 4)


@pytest.mark.filterwarnings("ignore")
def test_keras_alone_would_run_what_is_registered(tmp_path):
    """Why the reader looks itself: with this red, Keras' own safe mode does."""
    for suffix in (".keras", ".h5"):
        MADE["registered"](tmp_path / f"given{suffix}")
        RAN.clear()
        keras.saving.load_model(tmp_path / f"given{suffix}", compile=False, safe_mode=True)
        assert RAN


def test_of_another_name_or_size_a_file_is_none(tmp_path, monkeypatch):
    model().save(tmp_path / "plain.keras")
    (tmp_path / "plain.bin").write_bytes((tmp_path / "plain.keras").read_bytes())
    with pytest.raises(BadInput, match=NONE):
        keras_file.read(tmp_path / "plain.bin")
    monkeypatch.setattr(keras_file, "MOST_BYTES", 10)
    with pytest.raises(BadInput, match=NONE):
        keras_file.read(tmp_path / "plain.keras")
