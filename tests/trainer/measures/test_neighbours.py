"""Many neighbours, one judgement: the pair and the score that prove most, on runs that did not choose them."""

import numpy as np
import pytest

from edgeveil.trainer.measures.black_box import most_proved, without_noise

SURE = 1 - 1e-6
RUNS = 60_000


def laplace(rng, centre, scale=1.0, runs=RUNS):
    """Runs of the Laplace mechanism on a vector."""
    return np.asarray(centre, float) + rng.laplace(0, scale, (runs, len(centre)))


def test_the_pair_that_tells_most_is_found_and_the_claim_is_kept():
    rng = np.random.default_rng(0)
    outputs = {"zero": laplace(rng, [0.0]), "half": laplace(rng, [0.5]), "one": laplace(rng, [1.0])}
    found = most_proved(outputs, confidence=SURE)
    assert found.neighbours == "zero; one"
    assert 0.75 < found.spent.epsilon <= 1.0
    assert found.spent.runs == RUNS // 3


def test_half_the_noise_is_found():
    rng = np.random.default_rng(1)
    outputs = {"zero": laplace(rng, [0.0], 0.5), "one": laplace(rng, [1.0], 0.5)}
    assert most_proved(outputs, confidence=SURE).spent.epsilon > 1.6


def test_of_a_vector_all_values_count():
    """Noise for a change of 1 in all, while each of four values changes by 1."""
    rng = np.random.default_rng(2)
    outputs = {"zero": laplace(rng, 4 * [0.0]), "ones": laplace(rng, 4 * [1.0])}
    assert most_proved(outputs, confidence=SURE).spent.epsilon > 2.0


def test_equal_laws_prove_nothing_and_one_neighbour_is_none():
    rng = np.random.default_rng(5)
    outputs = {str(at): rng.normal(size=(1_500, 2)) for at in range(3)}
    assert most_proved(outputs, confidence=SURE).spent.epsilon == 0
    assert most_proved({"alone": outputs["0"]}) is None


@pytest.mark.parametrize(("other", "said"), [(1.0, True), (0.0, False)], ids=["differs", "equal"])
def test_what_has_no_noise_is_told_apart_from_what_has(other, said):
    still = {"one": np.zeros((50, 2)), "other": np.full((50, 2), other)}
    assert without_noise(still) is said
    assert not without_noise({**still, "third": np.random.default_rng(6).normal(size=(50, 2))})
