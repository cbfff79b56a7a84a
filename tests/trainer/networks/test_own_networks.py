"""Networks of a user's own: what is taken, what each mistake gets, and a run that opens without the file."""

import hashlib
import json
import re
import sys

import numpy as np
import pytest
import tomllib

from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.audit.document import save
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.export.export import export
from edgeveil.trainer.ext.sweep import point
from edgeveil.trainer.ext.sweep.axes import with_settings
from edgeveil.trainer.networks.training import build
from edgeveil.trainer.perturbers.prgan import Generator, build_generator
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.sealing.seal import keygen, seal
from edgeveil.trainer.train import train
from tests.support.checkout import ROOT
from tests.support.once import nightly_but
from tests.support.small_runs import small_recipe, write_npz
from tests.support.trial import short_audit

PICTURES = InputSpec("image", (4, 4, 3), "uint8", 0.0, 255.0)
VECTORS = InputSpec("vector", (6,), "float32", -10.0, 10.0)
HEAD = "import keras\nfrom keras import layers\n\n"
ENDS = "    x = keras.Input(spec.shape)\n    h = layers.Flatten()(x)\n"
END = "    return keras.Model(x, layers.Dense(spec.classes)(h))\n"
BUILD = f"{HEAD}def build(spec):\n{ENDS}"
GENERATOR = (
    f"{HEAD}def build(spec):\n    x = keras.Input(spec.shape)\n"
    "    return keras.Model(x, layers.Add()([x, layers.Dense(spec.shape[-1], activation='tanh')(x)]))\n"
)


def own(folder, text):
    """The architecture of a file of that text."""
    (folder / "mine.py").write_text(text)
    return f"{folder / 'mine.py'}:build"


# One mistake each: the file's text, and what is said of it.
BAD = {
    "no such module": ("import no_such_module\n", r"cannot be imported: ModuleNotFoundError: .*\(line 1 of mine.py\)"),
    "no Python": ("def build(spec:\n", "mine.py cannot be imported: SyntaxError"),
    "ends the program": ("raise SystemExit(0)\n", "mine.py cannot be imported: SystemExit"),
    "another name": ("def other(spec): ...\n", "has no function build; it has other"),
    "two arguments": ("def build(shape, classes): ...\n", r"one argument was expected, build\(spec\)"),
    "fails": (
        f"{HEAD}def build(spec):\n    return spec.nothing\n",
        r"fails for Spec\(.*AttributeError.*line 5 of mine",
    ),
    "no model": ("def build(spec): return {}\n", "a keras.Model or a torch.nn.Module was expected; got builtins.dict"),
    "subclass": (
        f"{HEAD}class Mine(keras.Model):\n    pass\n\ndef build(spec):\n    return Mine()\n",
        "a Functional or Sequential model that begins with keras.Input was expected",
    ),
    "no input": (
        f"{HEAD}def build(spec):\n    return keras.Sequential([layers.Dense(2)])\n",
        "begins with keras.Input",
    ),
    "a layer of one's own": (
        f"{HEAD}class Mine(layers.Layer):\n    def call(self, x):\n        return x\n\ndef build(spec):\n"
        f"{ENDS}    h = Mine()(h)\n{END}",
        "has Mine, whose code a saved model lacks",
    ),
    "a layer that cannot be saved": (
        f"{HEAD}class Mine(layers.Layer):\n    def __init__(self, times):\n        super().__init__()\n\n"
        f"    def call(self, x):\n        return x\n\ndef build(spec):\n{ENDS}    h = Mine(keras)(h)\n{END}",
        "a saved model would not open: |has Mine, whose code",
    ),
    "an activation of one's own": (
        f"{HEAD}def act(v):\n    return v\n\ndef build(spec):\n{ENDS}    h = layers.Dense(4, activation=act)(h)\n{END}",
        "has function, whose code",
    ),
    "an activation without a name": (
        f"{BUILD}    h = layers.Dense(4, activation=lambda v: v)(h)\n{END}",
        "a saved model would not open: ",
    ),
    "lambda": (f"{BUILD}    h = layers.Lambda(lambda v: v)(h)\n{END}", "has Lambda, whose code"),
    "too many classes": (
        f"{BUILD}    return keras.Model(x, layers.Dense(7)(h))\n",
        r"logits of 3 classes .* \[\(7,\)\]",
    ),
    "no vector": (f"{BUILD}    return keras.Model(x, x)\n", r"logits of 3 classes were expected.*\(4, 4, 3\)"),
    "probabilities": (
        f"{BUILD}    e = keras.ops.exp(layers.Dense(spec.classes)(h))\n"
        "    return keras.Model(x, e / keras.ops.sum(e, axis=-1, keepdims=True))\n",
        r"gives probabilities, and logits were expected: end it with Dense\(3\), or a trained one before them: keras",
    ),
    "a sigmoid of each class": (
        f"{BUILD}    return keras.Model(x, layers.Dense(spec.classes, activation='sigmoid')(h))\n",
        "ends with a sigmoid, and logits were expected: leave it out",
    ),
    "channels first": (
        f"{HEAD}def build(spec):\n    x = h = keras.Input(spec.shape[::-1])\n    h = layers.Flatten()(h)\n{END}",
        "inputs of the shapes .* were expected.*Its channels are first",
    ),
    "a layer with channels first": (
        f"{HEAD}def build(spec):\n    x = keras.Input(spec.shape)\n    h = layers.Permute((3, 1, 2))(x)\n"
        f"    h = layers.GlobalAveragePooling2D(data_format='channels_first', name='pool')(h)\n{END}",
        "channels last were expected, and the layer 'pool' has channels first",
    ),
    "random": (
        f"{BUILD}    h = layers.GaussianNoise(1.0, name='noisy')(h, training=True)\n{END}",
        r"two passes over the same samples differ, by the layer 'noisy' \(GaussianNoise\)",
    ),
    "batch norm in training": (
        f"{BUILD}    h = layers.BatchNormalization(name='bn', momentum=1.0)(h, training=True)\n{END}",
        r"depends on the batch, by the layer 'bn' \(BatchNormalization\)",
    ),
    "float64": (
        f"{BUILD}    h = layers.Dense(4, dtype='float64', name='wide')(h)\n{END}",
        "float32 was expected, and wide/kernel is float64",
    ),
    "fails in a pass": (
        f"{BUILD}    h = layers.Embedding(2, 1, name='far')(h * 0 - 9)\n    h = layers.Flatten()(h)\n{END}",
        "does not run on samples|not finite",
    ),
}


@pytest.mark.filterwarnings("ignore:The object being serialized includes a")
@pytest.mark.parametrize(("text", "says"), BAD.values(), ids=BAD)
def test_each_mistake_of_a_file_is_one_sentence(text, says, tmp_path):
    architecture = own(tmp_path, text)
    with pytest.raises(BadInput, match=says) as caught:
        build(architecture, PICTURES, 3)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_gone_and_a_generator_of_another_shape(tmp_path):
    with pytest.raises(BadInput, match=r"mine.py:build: a file was expected at .*needed to train"):
        build(str(tmp_path / "mine.py:build"), PICTURES, 3)
    architecture = own(tmp_path, f"{BUILD}    return keras.Model(x, layers.Dense(5)(h))\n")
    with pytest.raises(BadInput, match=r"one output of a sample's shape \(6,\) was expected; it gives \[\(5,\)\]"):
        build_generator(VECTORS, Generator(architecture=architecture))


def test_a_generator_stays_in_the_unit_cube_and_takes_noise(tmp_path):
    text = (
        f"{HEAD}def build(spec):\n    x, n = keras.Input(spec.shape), keras.Input((spec.noise,))\n"
        "    return keras.Model([x, n], layers.Add()([x, layers.Dense(6)(layers.Concatenate()([x, n])), x]))\n"
    )
    model = build_generator(VECTORS, Generator(architecture=own(tmp_path, text), clip="returns"), noise=2)
    v = np.asarray(model([np.full((5, 6), 9.0, np.float32), np.zeros((5, 2), np.float32)]))
    assert ([one.name for one in model.inputs], model.output_names) == (["sample", "noise"], ["output"])
    assert v.min() >= 0.0
    assert v.max() == 1.0
    assert model.get_layer("output").returns


def test_a_softmax_at_the_end_is_taken_off(tmp_path):
    text = f"{BUILD}    return keras.Model(x, layers.Dense(spec.classes, activation='softmax')(h))\n"
    logits = np.asarray(build(own(tmp_path, text), PICTURES, 3)(np.random.default_rng(0).random((9, 4, 4, 3))))
    assert np.abs(logits.sum(axis=1) - 1).max() > 0.01


@pytest.mark.parametrize(
    ("architecture", "says"),
    [
        ("mine.py", 'a function of a file, as in "mine.py:build"; got "mine.py"'),
        ("mine:build", 'as in "mine.py:build"'),
        ("minepy", "'series' or 'linear'; got \"minepy\""),
    ],
)
def test_an_architecture_is_a_name_or_a_function_of_a_file(architecture, says):
    with pytest.raises(BadInput, match=says):
        small_recipe(None, kind="label-only", classifiers={"architecture": architecture})


def test_one_logit_of_two_classes_gets_the_line_that_makes_two(tmp_path):
    architecture = own(tmp_path, f"{BUILD}    return keras.Model(x, layers.Dense(1)(h))\n")
    with pytest.raises(BadInput, match=r"logits of 2 classes.*\[\(1,\)\]\. Of a single logit h, .*\[0 \* h, h\]\)"):
        build(architecture, PICTURES, 2)
    with pytest.raises(BadInput, match=r"it gives \[\(1,\)\]\.$"):
        build(architecture, PICTURES, 3)


@pytest.mark.parametrize("head", ["import torch\n\n\ndef build(spec):\n", "def build(spec):\n    import torch\n"])
def test_where_torch_is_missing_the_line_that_installs_it_is_given(head, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BadInput, match=r"Install it: pip install 'edgeveil\[trainer,torch\]'"):
        build(own(tmp_path, f"{head}    return torch.nn.Identity()\n"), PICTURES, 3)


@pytest.mark.parametrize(
    ("generator", "says"),
    [
        ({"architecture": "mine.py:build", "width": 8}, "no width with a network of"),
        ({"architecture": "mlp"}, "`width`"),
    ],
)
def test_the_size_of_a_generator_is_stated_once(generator, says):
    with pytest.raises(BadInput, match=says):
        small_recipe(None, perturber={"kind": "prgan", "distance": 1.0, "generator": generator})


def test_the_networks_and_the_sections_of_the_page_are_taken(tmp_path):
    page = (ROOT / "docs/how-to/own-networks-train.md").read_text()
    code, torch_code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for text in (code, torch_code):
        assert len([line for line in text.splitlines() if line.strip()]) <= 10
    (tmp_path / "mine.py").write_text(code)
    assert build(f"{tmp_path}/mine.py:classifier", PICTURES, 3).output_shape == (None, 3)
    generator = Generator(architecture=f"{tmp_path}/mine.py:generator")
    assert build_generator(PICTURES, generator).output_shape == (None, 4, 4, 3)
    first, second = (tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", page, re.DOTALL))
    perturber = {"kind": "prgan", "distance": 1.0, **first["perturber"]}
    small_recipe(None, perturber=perturber, classifiers=first["classifiers"] | second["classifiers"])


# Whose code a recipe may run: of its own folder alone, shown before it runs, and apart from that of another recipe.


def naming(architecture, folder, **more):
    """A recipe in ``folder`` whose classifier is that code."""
    table = json.loads(small_recipe("small.npz", kind="label-only").model_dump_json(exclude_none=True))
    table["classifiers"]["architecture"] = architecture
    return Recipe.of_table({**table, **more}, folder=folder)


@pytest.mark.parametrize(
    "place", ["{out}/mine.py", "../mine.py", "~/mine.py", "link.py", "linked/mine.py", "a/../../mine.py"]
)
def test_code_outside_of_the_recipes_folder_is_refused(place, tmp_path):
    folder = tmp_path / "recipe"
    folder.mkdir()
    own(tmp_path, f"{BUILD}{END}")
    (folder / "link.py").symlink_to(tmp_path / "mine.py")
    (folder / "linked").symlink_to(tmp_path)
    with pytest.raises(BadInput, match=r"code of the recipe's own folder was expected, .*\.py:build leads out"):
        naming(f"{place.format(out=tmp_path)}:build", folder)
    generator = {"kind": "prgan", "distance": 1.0, "generator": {"architecture": f"{place.format(out=tmp_path)}:build"}}
    with pytest.raises(BadInput, match="code of the recipe's own folder was expected"):
        naming("table1-wifi", folder, perturber=generator)
    own(folder, f"{BUILD}{END}")
    (folder / "inside.py").symlink_to("mine.py")
    for name in ("mine.py", "inside.py"):
        recipe = naming(f"{name}:build", folder)
        assert with_settings(recipe, {"seed": 7}).code() == recipe.code() == [f"{folder.resolve()}/mine.py:build"]
        with pytest.raises(BadInput, match="leads out of it"):
            with_settings(recipe, {"classifiers.architecture": f"{tmp_path}/mine.py:build"})


def test_the_code_of_a_runs_own_recipe_is_named_again(tmp_path):
    own(tmp_path, f"{BUILD}{END}")
    write_npz(tmp_path)
    run = Run.create(tmp_path / "run", naming("mine.py:build", tmp_path))
    assert Run.open(run.folder).recipe.code() == run.recipe.code()  # opened, and nothing is run
    with pytest.raises(BadInput, match=r"run/recipe.toml: code of the recipe's own folder was expected"):
        Recipe.find(run.folder / "recipe.toml")


def test_a_sweep_runs_the_code_that_it_was_asked_for_and_not_that_of_a_folder_it_found(tmp_path):
    own(tmp_path, f"{BUILD}{END}")
    (tmp_path / "other.py").write_text("raise SystemExit('ran')\n")
    write_npz(tmp_path)
    recipe = naming("mine.py:build", tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(point, "train_classifiers", lambda _: None)
        found = point.shared_classifiers(recipe, tmp_path / "out", budget="full")
    found.record(state="started")
    stored = found.folder / "recipe.toml"
    stored.write_text(stored.read_text().replace("mine.py:build", "other.py:build"))
    point.shared_classifiers(recipe, tmp_path / "out", budget="full")
    assert (found.folder / "classifiers" / "target.keras").is_file()


def test_the_file_and_its_hash_are_printed_before_it_runs(tmp_path, capsys):
    architecture = own(tmp_path, "raise ValueError('in the file')\n")
    with pytest.raises(BadInput, match="in the file"):
        build(architecture, PICTURES, 3)
    digest = hashlib.sha256((tmp_path / "mine.py").read_bytes()).hexdigest()
    assert f"Running code of the recipe: {tmp_path}/mine.py, SHA-256 {digest}." in capsys.readouterr().err


@pytest.mark.parametrize("late", [False, True], ids=["at its head", "inside build()"])
def test_modules_next_to_a_file_are_its_own(late, tmp_path):
    before = list(sys.path)
    for width in (3, 5):
        folder = tmp_path / str(width)
        folder.mkdir()
        (folder / "sizes.py").write_text(f"WIDTH = {width}\n")
        head, body = ("", "    from sizes import WIDTH\n") if late else ("from sizes import WIDTH\n", "")
        code = f"{head}{BUILD}{body}    h = layers.Dense(WIDTH, name='own')(h)\n{END}"
        assert build(own(folder, code), PICTURES, 3).get_layer("own").units == width
        assert (sys.path, "sizes" in sys.modules) == (before, False)


# Label-only with a network of one's own.


@pytest.mark.nightly  # by day PR-GAN, below
def test_label_only_ships_a_network_of_ones_own(tmp_path):
    write_npz(tmp_path)
    own(tmp_path, f"{BUILD}    h = layers.Dense(3, name='mine')(h)\n{END}")
    table = json.loads(small_recipe("small.npz", kind="label-only", epochs=1).model_dump_json(exclude_none=True))
    table["perturber"]["network"] = "mine.py:build"
    recipe = Recipe.of_table(table, folder=tmp_path)
    assert recipe.code() == [f"{tmp_path.resolve()}/mine.py:build"]
    run = train(recipe, tmp_path / "run", budget="quick")
    (record,) = run.recipe.files
    assert record.text is not None
    (network,) = run.perturber().models.values()
    assert "mine" in json.dumps(network.get_config())
    table["perturber"]["network"] = "mine:build"
    with pytest.raises(BadInput, match=r"a function of a file, as in"):
        Recipe.of_table(table, folder=tmp_path)


# The whole way.


@pytest.mark.parametrize("way", nightly_but(("train", "export, audit and seal"), "train"))
def test_a_run_of_own_networks_opens_without_their_file(way, tmp_path, monkeypatch):
    write_npz(tmp_path)
    own(tmp_path, GENERATOR + f"\ndef reads(spec):\n{ENDS}{END}")
    table = json.loads(small_recipe("small.npz", epochs=2).model_dump_json(exclude_none=True))
    table["classifiers"]["architecture"] = "mine.py:reads"
    table["perturber"]["generator"] = {"architecture": "mine.py:build"}
    recipe = Recipe.of_table(table, folder=tmp_path)
    train(recipe, tmp_path / "run")
    text = (tmp_path / "mine.py").read_text()
    (record,) = Run.open(tmp_path / "run").recipe.files
    assert (record.text, record.sha256) == (text, hashlib.sha256(text.encode()).hexdigest())
    (tmp_path / "mine.py").write_text(text + "\n# changed\n")
    with pytest.raises(BadInput, match="`files` differs"):
        train(recipe, tmp_path / "run", resume=True)
    (tmp_path / "mine.py").unlink()
    with pytest.raises(BadInput, match=r"mine\.py, a file of the recipe, cannot be read .* needed to train"):
        train(recipe, tmp_path / "run", resume=True)
    run = Run.open(tmp_path / "run")
    assert run.perturber().frames(run.validation().x).shape[1:] == (6,)
    assert run.classifiers()["target"].output_shape == (None, 2)
    if way == "train":
        return
    short_audit.shorten(monkeypatch, families=short_audit.FEW)
    export(run.folder, ["raspberry-pi5"], tmp_path / "export")
    save(audit(tmp_path / "export"), tmp_path / "export")
    keygen(tmp_path / "keys", development=True)
    seal(tmp_path / "export", tmp_path / "keys" / "signing.key", tmp_path / "own.veil")
    assert main(["verify", str(tmp_path / "own.veil"), "--trust", str(tmp_path / "keys")]) == 0
