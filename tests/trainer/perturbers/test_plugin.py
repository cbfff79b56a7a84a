"""A perturber and a network of installed packages: keys are checked, both are trained, exported, shown as ours are."""

import json
import os
import subprocess
import sys

import pytest

from edgeveil.trainer.recipe.schema import Recipe
from tests.support.checkout import ROOT
from tests.support.small_runs import small_recipe, write_npz

PLUGINS = [str(ROOT / "tests/support/plugins" / name) for name in ("level", "wide")]
WHOLE_WAY = """
from pathlib import Path
from edgeveil.trainer.export.export import export
from edgeveil.trainer.networks.training import build
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.train import train

run = train(Recipe.find(Path("mine.toml")), Path("run"))
print([layer.units for layer in run.classifiers()["target"].layers[1:]])
export(run.folder, ["jetson-nano"], Path("export"))
other = Recipe.parse(run.recipe.toml().replace('"wide"', '"plain"')).with_files()
print(build("plain", run.dataset().input, 2).count_params(), "def build(spec)" in other.files[0].text)
"""
CHECK = "from pathlib import Path\nfrom edgeveil.trainer.recipe.schema import Recipe\nRecipe.find(Path('{}.toml'))"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("plugin")
    recipe = small_recipe(write_npz(made), kind="label-only", floor=0.01)
    kind = '[perturber]\nkind = "label-only"'
    text = recipe.toml().replace('architecture = "table1-wifi"', 'architecture = "wide"')
    start = text.index("[perturber]")
    end = text.index("\n\n", start)
    assert text[start:].startswith(kind)
    (made / "mine.toml").write_text(text[:start] + '[perturber]\nkind = "level"\nshare = 0.25' + text[end:])
    return made


def python(folder, *arguments, plugin=True):
    paths = PLUGINS if plugin else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )


@pytest.mark.nightly  # by day they are found, below, and a data set is trained on: datasets/test_sets.py
def test_a_perturber_and_a_classifier_of_other_packages_are_trained_and_exported(folder):
    done = python(folder, "-c", WHOLE_WAY)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split("\n")[:2] == ["[256, 2]", "14 True"]
    manifest = json.loads((folder / "export/manifest.json").read_text())
    assert manifest["perturber"]["kind"] == "level"
    assert Recipe.text(folder / "run/recipe.toml").count("share = 0.25") == 1


def test_its_keys_are_checked_as_ours_are(folder):
    text = (folder / "mine.toml").read_text().replace("share = 0.25", "shar = 0.25")
    (folder / "wrong.toml").write_text(text)
    done = python(folder, "-c", CHECK.format("wrong"))
    assert '`perturber.shar` is not a key of a recipe (did you mean "share"?)' in done.stderr


def test_without_the_packages_its_kind_and_its_network_are_unknown(folder):
    done = python(folder, "-c", CHECK.format("mine"), plugin=False)
    assert 'got "wide"' in done.stderr
    (folder / "ours.toml").write_text((folder / "mine.toml").read_text().replace('"wide"', '"table1-wifi"'))
    done = python(folder, "-c", CHECK.format("ours"), plugin=False)
    assert 'got "level"' in done.stderr
