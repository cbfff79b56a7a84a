"""Networks are found by their classes; a package adds one by an entry point, and it is D_y and D_z of a run."""

import os
import subprocess
import sys

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.networks.base import Network, network
from edgeveil.trainer.recipe.training_sections import NETWORKS
from edgeveil.trainer.scaffold.first_look import candidates
from tests.support.checkout import ROOT
from tests.support.small_runs import small_recipe, write_npz

SPECS = {
    "vector": InputSpec("vector", (6,), "float32", 0.0, 1.0),
    "image": InputSpec("image", (12, 12, 1), "uint8", 0.0, 255.0),
    "series": InputSpec("series", (64, 3), "float32", 0.0, 1.0),
}
TRAIN = """
from pathlib import Path
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.train import train

run = train(Recipe.find(Path("mine.toml")), Path("run"))
print([layer.units for layer in run.classifiers()["target"].layers[1:]])
"""


@pytest.mark.parametrize("name", [name for name, one in NETWORKS.kinds().items() if one.facts["role"] == "classifier"])
def test_each_classifier_gives_a_logit_of_each_class(name):
    kind = NETWORKS[name].load()
    assert issubclass(kind, Network)
    for of in kind.of:
        assert network(name, SPECS[of]).build(SPECS[of], settings=None, classes=3).output_shape == (None, 3)
    assert NETWORKS.find(kind.another) is not None


@pytest.mark.parametrize(
    ("name", "of", "says"),
    [
        (
            "series",
            "vector",
            'vectors take "normed-mlp" or "table1-wifi", series "series", images "small", "normed-cnn"',
        ),
        ("conv", "vector", 'the generator is "conv": vectors take "mlp", images and series "conv".'),
    ],
)
def test_samples_that_a_network_does_not_take_are_refused_with_those_that_do(name, of, says):
    with pytest.raises(BadInput, match=says):
        network(name, SPECS[of])


def test_recipe_new_tries_the_networks_in_their_turn():
    assert [candidates(of) for of in SPECS] == [["normed-mlp", "table1-wifi"], ["normed-cnn", "small"], ["series"]]


def test_a_classifier_of_another_package_is_trained(tmp_path):
    text = small_recipe(write_npz(tmp_path), kind="label-only").toml()
    text = text.replace('architecture = "table1-wifi"', 'architecture = "wide"')
    (tmp_path / "mine.toml").write_text(text)
    plugin = str(ROOT / "tests/support/plugins/wide")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([plugin, os.environ.get("PYTHONPATH", "")])}
    asked = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 600}
    done = subprocess.run([sys.executable, "-c", TRAIN], env=environment, **asked)
    assert done.stdout.strip() == "[256, 2]", done.stderr[-2000:]
    done = subprocess.run([sys.executable, "-c", TRAIN], **asked)
    assert "'series' or 'linear'; got \"wide\"" in done.stderr
