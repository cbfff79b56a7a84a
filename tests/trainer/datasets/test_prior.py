"""MED(z|y) of eq. (3), with the paper's two worked examples, and priors that cannot be."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets import prior

WOMEN = ["f1", "f2", "f3", "f4"]
NAMES = {"y_names": ["female"], "z_names": WOMEN}


def test_without_knowledge_it_is_a_quarter_each():
    """Section 4.1: four female subjects, nothing known."""
    np.testing.assert_allclose(prior.med({}, **NAMES), [[0.25] * 4])


def test_half_known_leaves_a_sixth_each():
    """Section 4.1: half of all images of a female subject belong to f1."""
    np.testing.assert_allclose(prior.med({"female": {"f1": 0.5}}, **NAMES), [[1 / 2, 1 / 6, 1 / 6, 1 / 6]])


def test_zero_is_knowledge_too():
    """Section 4.1: an identity that belongs to another gender is crossed off."""
    known = {"female": {"m1": 0.0}}
    theta = prior.med(known, y_names=["female"], z_names=["f1", "f2", "m1"])
    np.testing.assert_allclose(theta, [[0.5, 0.5, 0.0]])


def test_a_whole_prior_is_kept_and_thirds_may_be_rounded():
    third = {"female": dict.fromkeys(("f1", "f2", "f3"), 0.3333)}
    theta = prior.med(third, y_names=["female"], z_names=["f1", "f2", "f3"])
    np.testing.assert_allclose(theta, [[1 / 3] * 3])


@pytest.mark.parametrize(
    ("known", "says"),
    [
        ({"female": {"f1": 0.7, "f2": 0.6}}, 'The prior of y "female" must sum to at most 1; got 1.3'),
        ({"female": {"f1": -0.1}}, r"P\(f1\|female\) must lie between 0 and 1; got -0.1"),
        ({"female": {"f9": 0.5}}, 'names the z "f9"; the classes of z are "f1", "f2", "f3", "f4"'),
        ({"femal": {"f1": 0.5}}, 'names the y "femal"; the classes of y are "female"'),
        ({"female": dict.fromkeys(WOMEN, 0.2)}, "names every z and must sum to 1; got 0.8"),
    ],
)
def test_an_impossible_prior_gets_one_sentence(known, says):
    with pytest.raises(BadInput, match=says):
        prior.med(known, **NAMES)


def test_counted_and_even_priors():
    y, z = np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 0, 1, 2, 2])
    np.testing.assert_allclose(prior.counted(y, z, classes=(2, 3)), [[0.75, 0.25, 0], [0, 0, 1]])
    np.testing.assert_allclose(prior.even_over_seen(y, z, classes=(2, 3)), [[0.5, 0.5, 0], [0, 0, 1]])


def test_a_prior_that_rules_out_what_is_there_is_refused():
    theta = np.array([[1.0, 0.0]])
    y, z = np.zeros(3, int), np.array([0, 1, 1])
    with pytest.raises(BadInput, match=r'z "b" never comes with y "a"; 2 training rows'):
        prior.check_possible(theta, y, z, names=(["a"], ["a", "b"]))
    prior.check_possible(theta, y[:1], z[:1], names=(["a"], ["a", "b"]))
