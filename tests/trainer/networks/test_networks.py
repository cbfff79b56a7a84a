"""Networks are found by their classes; of another package one is trained in perturbers/test_plugin.py."""

import keras
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.networks import training
from edgeveil.trainer.networks.base import Network, network
from edgeveil.trainer.recipe.networks import NETWORKS
from edgeveil.trainer.recipe.training_sections import Classifiers
from edgeveil.trainer.scaffold.first_look import _Nowhere, candidates
from tests.support.small_runs import small_recipe

SPECS = {
    "vector": InputSpec("vector", (96,), "float32", 0.0, 1.0),
    "image": InputSpec("image", (12, 12, 1), "uint8", 0.0, 255.0),
    "series": InputSpec("series", (64, 3), "float32", 0.0, 1.0),
}
FEW = InputSpec("vector", (95,), "float32", 0.0, 1.0)


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
            'vectors take "normed-mlp", "table1-wifi" or "windows", series "series", images "small", "normed-cnn"',
        ),
        ("conv", "vector", 'the generator is "conv": vectors take "mlp", images and series "conv".'),
    ],
)
def test_samples_that_a_network_does_not_take_are_refused_with_those_that_do(name, of, says):
    with pytest.raises(BadInput, match=says):
        network(name, SPECS[of])


def test_recipe_new_tries_the_networks_in_their_turn():
    of_vectors, *others = (candidates(of) for of in SPECS.values())
    assert of_vectors == ["normed-mlp", "table1-wifi", "windows"]
    assert others == [["normed-cnn", "small"], ["series"]]
    assert candidates(FEW) == ["normed-mlp", "table1-wifi"]
    with pytest.raises(BadInput, match='"windows" needs at least 96 features; got 95'):
        network("windows", FEW).build(FEW, settings=None, classes=3)


def test_a_network_of_few_steps_has_settled_averages(tmp_path):
    """16 steps on weak pictures: batch norm's averages were still those of its start, and y was read as by guessing."""
    y = np.random.default_rng(0).integers(0, 3, 600)
    x = 0.1 + 0.02 * np.random.default_rng(1).random((600, 16, 16, 1)).astype(np.float32)
    for label in range(3):
        x[y == label, 5 * label : 5 * label + 5] += 0.02
    keras.utils.set_random_seed(0)
    model = training.build("normed-cnn", InputSpec("image", (16, 16, 1), "float32", 0.0, 1.0), 3)
    fit, choose = (x[:480], y[:480]), (x[480:], y[480:])
    settings = Classifiers(architecture="normed-cnn")
    log = _Nowhere(tmp_path)
    right = training.train_one(model, fit, choose, settings=settings, batch=120, epochs=4, seed=0, log=log, stage="few")
    assert right > 0.9
    assert {layer.momentum for layer in model.layers if hasattr(layer, "momentum")} == {0.9}


def test_without_its_package_a_classifier_is_unknown():
    with pytest.raises(BadInput, match="'series' or 'linear'; got \"wide\""):
        small_recipe(None, kind="label-only", classifiers={"architecture": "wide"})
