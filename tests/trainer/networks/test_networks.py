"""Networks are found by their classes; of another package one is trained in perturbers/test_plugin.py."""

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.networks.base import Network, network
from edgeveil.trainer.recipe.networks import NETWORKS
from edgeveil.trainer.scaffold.first_look import candidates
from tests.support.small_runs import small_recipe

SPECS = {
    "vector": InputSpec("vector", (6,), "float32", 0.0, 1.0),
    "image": InputSpec("image", (12, 12, 1), "uint8", 0.0, 255.0),
    "series": InputSpec("series", (64, 3), "float32", 0.0, 1.0),
}


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


def test_without_its_package_a_classifier_is_unknown():
    with pytest.raises(BadInput, match="'series' or 'linear'; got \"wide\""):
        small_recipe(None, kind="label-only", classifiers={"architecture": "wide"})
