"""Modules and files of PyTorch as Keras models. They run where it is: scripts/environments/torch makes the place."""

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import warnings

import keras
import numpy as np
import pytest

import edgeveil
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.registry import adversaries
from edgeveil.trainer.attacks.rows import Question
from edgeveil.trainer.attacks.run_all import attack_all
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.export.export import export
from edgeveil.trainer.networks import own
from edgeveil.trainer.networks.training import build
from edgeveil.trainer.perturbers.prgan import Generator, build_generator
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.train import train
from edgeveil.trainer.wrap import wrap
from scripts.environments.pythons import folder
from tests.support import torch_modules
from tests.support.checkout import ROOT
from tests.support.once import nightly_but
from tests.support.small_runs import small_recipe, write_npz
from tests.trainer.attacks.test_plugins import problem
from tests.trainer.graphs.test_pt2 import LINEAR, as_json, changed, of_another

PICTURES = InputSpec("image", (8, 8, 3), "uint8", 0.0, 255.0)
HERE = own.importlib.util.find_spec("torch") is not None
EXPORT = ROOT / "tests/trainer/export/converters/test_keras_onnx.py"
PLACE = folder() / "torch" / "bin" / "python"
HEAD = "import torch\nfrom torch import nn\n\n\n"
needs_torch = pytest.mark.skipif(not HERE, reason="no PyTorch: scripts/environments/torch makes .venvs/torch")


def asked(test):
    return pytest.mark.torch(needs_torch(test))


@pytest.mark.slow
@pytest.mark.skipif(HERE or not PLACE.exists(), reason="no .venvs/torch: run scripts/environments/torch")
@pytest.mark.parametrize("night", [(), pytest.param(("--nightly",), marks=pytest.mark.nightly)], ids=["day", "night"])
def test_all_of_it_holds_where_pytorch_is(night):
    words = [PLACE, "-m", "pytest", "-q", "-m", "torch", "-p", "no:cacheprovider", *night, __file__, EXPORT]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=1800, env={**os.environ})
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout


# What becomes of a module.


@asked
@pytest.mark.parametrize("name", nightly_but(tuple(torch_modules.SHAPES), "resnet", "recurrent"))
def test_a_module_and_its_file_are_what_the_keras_model_is(name, tmp_path):
    from edgeveil.trainer.networks import torch_models

    module, shape = torch_modules.made(name), torch_modules.SHAPES[name]
    torch = sys.modules["torch"]
    u = np.random.default_rng(1).random((5, *shape), np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(np.moveaxis(u, -1, 1).copy())).numpy()
    model = torch_models.of_module(module, name, [shape])
    assert not {"Transpose"} & {type(layer).__name__ for layer in model.layers if name in torch_modules.UNTURNED}
    torch_modules.save(module, shape, tmp_path / "m.pt2", batch=None if name in torch_modules.OPEN else 1)
    model.save(tmp_path / "m.keras")
    spec = own.Spec(shape, None if expected.ndim > 2 else expected.shape[1])
    own.checked(own.read_given(tmp_path / "m.keras", shape)[0], name, spec)
    for one in (model, keras.saving.load_model(tmp_path / "m.keras"), own.read_given(tmp_path / "m.pt2", shape)[0]):
        found = np.asarray(one(u))
        found = np.moveaxis(found, -1, 1) if expected.ndim > 2 else found
        assert np.abs(found - expected).max() < 2e-5
    trained = sum(value.numel() for value in module.parameters()) - torch_modules.MERGED.get(name, 0)
    assert sum(np.prod(value.shape) for value in model.trainable_variables) == trained


@asked
@pytest.mark.parametrize(
    ("dynamo", "name", "batch"),  # by day each value of each
    nightly_but(
        tuple(itertools.product((True, False), ("resnet", "lenet", "convnext"), ("n", 2))),
        *((True, "convnext", "n"), (True, "lenet", 2), (False, "lenet", "n"), (False, "resnet", 2)),
    ),
)
def test_what_torch_onnx_writes_is_the_module_that_it_was(dynamo, name, batch, tmp_path):
    module, shape = torch_modules.made(name), torch_modules.SHAPES[name]
    torch, file = sys.modules["torch"], tmp_path / "m.onnx"
    if dynamo:
        how = {"dynamic_shapes": ({0: torch.export.Dim("n")},) if batch == "n" else None, "verbose": False}
    else:
        how = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n"}} if batch == "n" else None}
    sample = torch.rand(2, shape[-1], *shape[:-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (sample,), str(file), dynamo=dynamo, external_data=False, **how)
    u = np.random.default_rng(1).random((5, *shape), np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(np.moveaxis(u, -1, 1).copy())).numpy()
    model, _ = own.read_given(file, shape)
    assert np.abs(np.asarray(model(u)) - expected).max() < 2e-5
    assert not {"Transpose"} & {type(layer).__name__ for layer in model.layers if name in torch_modules.UNTURNED}
    counts = [sum(np.prod(value.shape) for value in model.trainable_variables)]
    counts.append(sum(value.numel() for value in module.parameters()))
    norms = sum(2 * one.num_features for one in module.modules() if isinstance(one, torch.nn.BatchNorm2d))
    assert counts[1] - norms <= counts[0] <= counts[1]  # an exporter folds norms into convolutions


@asked
def test_a_converted_model_learns_and_what_is_frozen_stays(tmp_path):
    from edgeveil.trainer.networks import torch_models

    module = torch_modules.made("mlp")
    module[0].requires_grad_(False)
    model = torch_models.of_module(module, "mlp", [(7,)])
    first, *_ = (one for one in model.layers if one.weights)
    before = first.get_weights()
    u = np.random.default_rng(0).random((256, 7), np.float32)
    y = (u[:, 2] > 0.5).astype(int)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    model.fit(u, y, epochs=30, verbose=0)
    assert model.evaluate(u, y, verbose=0)[1] > 0.9
    assert all((one == other).all() for one, other in zip(before, first.get_weights(), strict=True))


# What each mistake gets. The text of a file, and the sentence.

BUILD = "def build(spec):\n    return nn.Sequential("
CLASS = "class Mine(nn.Module):\n    def forward(self, x):\n        {}\n\n\ndef build(spec):\n    return Mine()\n"
BAD = {
    "channels last": (f"{BUILD}nn.Flatten(2), nn.Linear(3, 4))\n", r"does not run on \(2, 3, 8, 8\), channels first"),
    "too many classes": (f"{BUILD}nn.Flatten(), nn.Linear(192, 7))\n", r"logits of 3 classes .* \[\(7,\)\]"),
    "probabilities": (
        f"{BUILD}nn.Flatten(), nn.Linear(192, 3), nn.Softmax(1), nn.Hardtanh(0, 1))\n",
        "gives probabilities",
    ),
    "a state": (
        "class Mine(nn.Linear):\n    def forward(self, x):\n        self.seen.add_(1)\n"
        "        return super().forward(x.flatten(1)) * self.seen\n\n\n"
        "def build(spec):\n    made = Mine(192, 3)\n    made.register_buffer('seen', torch.zeros(1))\n"
        "    return made\n",
        "seen changes at each pass",
    ),
    "a sigmoid": (f"{BUILD}nn.Flatten(), nn.Linear(192, 3), nn.Sigmoid())\n", "ends with a sigmoid"),
    "float64": (f"{BUILD}nn.Flatten(), nn.Linear(192, 3)).double()\n", "and 1.weight is float64: call"),
    "random": (
        CLASS.format("return nn.functional.dropout(x).flatten(1)[:, :3]"),
        "dropout of its forward: it draws at random in inference",
    ),
    "random numbers": (
        CLASS.format("return (x + torch.rand_like(x)).flatten(1)[:, :3]"),
        "rand_like of its forward has",
    ),
    "batch norm in training": (
        CLASS.format("return nn.functional.batch_norm(x, None, None, training=True).flatten(1)[:, :3]"),
        "batch_norm of its forward: it runs as in training",
    ),
    "the whole batch": (CLASS.format("return (x - x.mean(0)).flatten(1)[:, :3]"), "goes over the batch"),
    "an unknown operation": (
        f"{BUILD}nn.Sequential(nn.Conv2d(3, 3, 3), nn.LPPool2d(2, 2), nn.FractionalMaxPool2d(2, 2)), nn.Flatten())\n",
        "has no counterpart in Keras here",
    ),
    "a branch on values": (
        CLASS.format("return x.flatten(1)[:, :3] if x.sum() > 0 else x.flatten(1)[:, 3:6]"),
        "torch.export cannot write it as a graph",
    ),
    "a class": (
        "class Mine(nn.Module):\n    pass\n\n\ndef build(spec):\n    return Mine\n",
        "a torch.nn.Module was expected",
    ),
}


@asked
@pytest.mark.parametrize(
    ("text", "says"),
    nightly_but(tuple(BAD.values()), *(BAD[one] for one in ("channels last", "random", "the whole batch", "a class"))),
    ids=BAD,
)
def test_each_mistake_of_a_module_is_one_sentence(text, says, tmp_path):
    (tmp_path / "mine.py").write_text(HEAD + text)
    with pytest.raises(BadInput, match=says) as caught:
        build(f"{tmp_path}/mine.py:build", PICTURES, 3)
    assert "\n" not in str(caught.value)


@asked
def test_a_layer_that_differs_is_named(monkeypatch):
    from edgeveil.trainer.networks import torch_models

    torch_models._table()
    wrong = torch_models.CONVERTED["tanh"]
    monkeypatch.setitem(torch_models.CONVERTED, "silu", wrong)
    with pytest.raises(BadInput, match=r"silu of the layer 2 gives other values in Keras than in PyTorch, by"):
        torch_models.of_module(torch_modules.made("mlp"), "mlp", [(7,)])


def test_without_pytorch_the_line_that_installs_it_is_given(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "mine.py").write_text(HEAD)
    mine, file = f"{tmp_path}/mine.py:build", tmp_path / "m.pt2"
    for act in (lambda: build(mine, PICTURES, 3), lambda: own.read_given(file, (3,))):
        with pytest.raises(BadInput, match=r"Install it: pip install 'edgeveil\[trainer,torch\]'"):
            act()


# Files.


@asked
def test_only_what_is_converted_is_ever_called(tmp_path):
    change = as_json(of_another("torch.ops.aten.from_file.default"))
    (tmp_path / "m.pt2").write_bytes(changed(LINEAR, model=change).read())
    with pytest.raises(BadInput, match="from_file of the layer 1 has no counterpart"):
        own.read_given(tmp_path / "m.pt2", (3,))


@asked
def test_a_file_for_other_samples_is_refused():
    with pytest.raises(BadInput, match=r"linear.pt2: inputs of the shapes \[\(4,\)\].*it takes \[\(3,\)\]"):
        own.read_given(LINEAR, (4,))


# The whole way.

MINE = """
def classifier(spec):
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, spec.classes))


class Change(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = nn.Sequential(nn.Linear(6, 12), nn.SiLU(), nn.Linear(12, 6), nn.Tanh())

    def forward(self, x):
        return x + self.inside(x)


def generator(spec):
    return Change()
"""


@asked
def test_modules_train_export_and_need_pytorch_no_more(tmp_path, monkeypatch):
    write_npz(tmp_path)
    (tmp_path / "mine.py").write_text(HEAD + MINE)
    table = json.loads(small_recipe("small.npz", epochs=2).model_dump_json(exclude_none=True))
    table["classifiers"]["architecture"] = "mine.py:classifier"
    table["perturber"]["generator"] = {"architecture": "mine.py:generator"}
    recipe = Recipe.of_table(table, folder=tmp_path)
    train(recipe, tmp_path / "run")
    (tmp_path / "mine.py").unlink()
    monkeypatch.setitem(sys.modules, "torch", None)
    run = Run.open(tmp_path / "run")
    assert run.facts["classifiers"]["target"]["validation_accuracy"] > 0.7
    assert run.perturber().frames(run.validation().x).shape[1:] == (6,)
    made = export(run.folder, ["raspberry-pi5", "coral-usb"], tmp_path / "export")
    assert made.folder.is_dir()


@pytest.mark.nightly  # by day the same calls, above
@asked
def test_the_page_is_followed_from_the_shell(tmp_path):
    """At most ten lines of a user's own, trained and exported by the commands of the page."""
    page = (ROOT / "docs/how-to/own-networks-train.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    (tmp_path / "mine.py").write_text(code)
    (line,) = re.findall(r"^    (edgeveil train .*)$", page, re.MULTILINE)
    short = [f"budget.quick.{key}" for key in ("rows=600", "classifier_epochs=2", "epochs=2")]
    train_it = [*shlex.split(line)[1:], "--budget", "quick", *(word for one in short for word in ("--set", one))]
    export_it = ["export", "runs/own", "--for", "raspberry-pi5", "--out", "own-export"]
    for words in (train_it, export_it):
        command = [sys.executable, "-m", "edgeveil.trainer.cli.main", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1800)
        assert done.returncode == 0, done.stderr[-2000:]
    assert "nn.LazyLinear(64)" in (tmp_path / "runs/own/recipe.toml").read_text()
    assert (tmp_path / "own-export/export.json").is_file()


@asked
def test_the_same_seed_gives_the_same_module(tmp_path):
    (tmp_path / "mine.py").write_text(HEAD + MINE)
    spec = InputSpec("vector", (6,), "float32", -10.0, 10.0)
    made = []
    for _ in range(2):
        keras.utils.set_random_seed(5)
        made.append(build_generator(spec, Generator(architecture=f"{tmp_path}/mine.py:generator")).get_weights())
    assert all((one == other).all() for one, other in zip(*made, strict=True))


@asked
@pytest.mark.nightly  # by day a file is read, above, and those of Keras are wrapped: perturbers/test_wrapped.py
def test_a_trained_file_is_taken_and_a_generator_is_wrapped(tmp_path):
    torch = own.importlib.import_module("torch")
    write_npz(tmp_path)
    reads = torch.nn.Linear(6, 2)
    with torch.no_grad():
        reads.weight.zero_()
        reads.weight[:, 0] = torch.tensor([-10.0, 10.0])
        reads.bias[:] = torch.tensor([4.0, -4.0])
    torch_modules.save(torch.nn.Sequential(reads), (6,), tmp_path / "dy.pt2", batch=1)
    squash = torch.nn.Sequential(torch.nn.Linear(6, 2), torch.nn.Tanh(), torch.nn.Linear(2, 6), torch.nn.Sigmoid())
    torch_modules.save(squash, (6,), tmp_path / "squash.pt2", batch=1)
    table = json.loads(small_recipe("small.npz", kind="label-only", epochs=2).model_dump_json(exclude_none=True))
    table["classifiers"]["target"] = {"trained": "dy.pt2", "low": -4.0, "high": 4.0}
    recipe = Recipe.of_table(table, folder=tmp_path)
    made = wrap(str(tmp_path / "squash.pt2"), recipe, tmp_path / "squash-export", profiles=["raspberry-pi5"])
    assert made.folder.is_dir()
    with torch.no_grad():
        expected = squash(torch.rand(4, 6)).shape
    run = Run.open(tmp_path / "squash")
    assert run.perturber().frames(run.validation().x[:4]).shape == tuple(expected)
    assert run.facts["classifiers"]["target"]["validation_accuracy"] > 0.8


@asked
def test_modules_are_given_as_objects_and_stay_as_they_are(tmp_path, monkeypatch):
    torch = own.importlib.import_module("torch")
    write_npz(tmp_path)
    recipe = small_recipe(tmp_path / "small.npz", kind="label-only", classifiers={"architecture": "small"})
    reads = torch.nn.Sequential(torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 2)).train()
    reads[1].eval()
    with torch.no_grad():
        reads[1].weight.zero_()
        reads[1].weight[:, 0] = torch.tensor([-10.0, 10.0])
        reads[1].bias[:] = torch.tensor([5.4, -5.4])
    before = {name: one.clone() for name, one in reads.state_dict().items()}
    with monkeypatch.context() as patch:
        patch.setattr("edgeveil.trainer.train._train", lambda run, *_, **__: run)
        run = edgeveil.train(recipe, tmp_path / "run", target=torch.nn.DataParallel(torch.compile(reads)))
    assert run.facts["classifiers"]["target"]["validation_accuracy"] > 0.8
    assert (reads.training, reads[0].training, reads[1].training) == (True, True, False)
    assert all(bool((one == before[name]).all()) for name, one in reads.state_dict().items())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is on its way out
        scripted = torch.jit.trace(torch.nn.Linear(6, 2), torch.zeros(1, 6))
    bad = [
        (torch.nn.Linear(6, 2).double(), "Linear: float32 was expected, and weight is float64: call"),
        (torch.nn.Linear(6, 2).half(), "and weight is float16: call"),
        (torch.nn.Linear(5, 2), r"Linear does not run on \(2, 6\), channels first"),
        (torch.nn.Linear(6, 3), r"logits of 2 classes were expected"),
        (torch.nn.Sequential(torch.nn.Linear(6, 2), torch.nn.RReLU()), "Sequential"),
        (torch.nn.Linear, "got builtins.type"),
        *[
            (one, r"ScriptModule of torch\.jit was given.* Give the module that it was made of")
            for one in (scripted, torch.nn.Sequential(scripted))
        ],
    ]
    for module, says in bad:
        with pytest.raises(BadInput, match=says) as caught:
            edgeveil.train(recipe, tmp_path / "other", target=module)
        assert "\n" not in str(caught.value)
    with pytest.raises(BadInput, match="come out unchanged"):
        edgeveil.wrap(torch.nn.Identity(), recipe, tmp_path / "same-export", settings={"layout": "first"})
    assert sorted(one.name for one in tmp_path.iterdir()) == ["run", "run-target.keras", "small.npz"]


@asked
def test_pytorch_is_imported_only_where_it_is_used():
    code = (
        "import sys, edgeveil; from edgeveil.trainer import train, wrap; from edgeveil.trainer.networks import own; "
        "edgeveil.load_recipe('digits-label-only'); print(own.is_module(1), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["False", "False"], done.stderr[-2000:]


# An attack by PyTorch.

ATTACK = ROOT / "tests/support/plugins/torch_attack"


@asked
def test_an_attack_of_pytorch_is_one_of_the_registry_and_finds_a_leak(monkeypatch):
    monkeypatch.syspath_prepend(str(ATTACK))
    family = adversaries()[-1]
    found = attack_all(Question.alone(problem()), families=(family,), curve=False)
    assert (found.rows[0].name, found.rows[0].kind) == ("PyTorch MLP", "adaptive")
    assert found.rows[0].right.estimate > 0.95


def test_without_pytorch_the_attack_is_a_row_with_the_reason(monkeypatch):
    monkeypatch.syspath_prepend(str(ATTACK))
    (family,) = (one for one in adversaries() if one.name == "PyTorch MLP")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert family.why_not(problem()) == "PyTorch is not installed"
