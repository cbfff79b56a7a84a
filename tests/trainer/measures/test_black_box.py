"""The black-box audit: sound where a claim holds, and near the truth where it does not."""

import math

import numpy as np
import pytest

from edgeveil.trainer.ext.private.estimators.perturbed_risk import Logistic, minimum, perturbation
from edgeveil.trainer.ext.private.noise import Seeded
from edgeveil.trainer.measures.black_box import clopper_pearson, lower_bound, mu_lower_bound, one_training
from tests.support import seeds

N = 100_000
SURE = 1 - 1e-6


def test_the_laplace_mechanism_keeps_its_claim_and_nearly_all_of_it_is_found():
    rng = np.random.default_rng(0)
    found = lower_bound(rng.laplace(0, 1, N), rng.laplace(1, 1, N))
    assert 0.9 <= found.epsilon <= 1.0
    assert found.runs == N // 2


def test_half_the_noise_is_found():
    rng = np.random.default_rng(0)
    found = lower_bound(rng.laplace(0, 0.5, N), rng.laplace(1, 0.5, N), confidence=SURE)
    assert found.epsilon > 1.7


@pytest.mark.parametrize("seeds", [20, pytest.param(60, marks=pytest.mark.nightly)])
def test_equal_laws_prove_nothing_and_claims_are_rarely_broken_by_chance(seeds):
    broken = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        found = lower_bound(rng.laplace(0, 1, 2000), rng.laplace(1, 1, 2000))
        broken += found.epsilon > 1.0
        assert lower_bound(rng.normal(size=500), rng.normal(size=500), confidence=SURE).epsilon == 0
    assert broken <= seeds / 20 + 3 * math.sqrt(seeds / 20)  # 5 %, and three deviations


def test_what_both_tails_give_away_is_found():
    """Half-lines of the score see nothing: one law is wider."""
    rng = np.random.default_rng(1)
    wide, narrow = rng.normal(0, 2, N), rng.normal(0, 1, N)
    assert lower_bound(wide, narrow).epsilon > 3
    assert lower_bound(narrow, wide).epsilon > 3


def test_few_values_are_bins_of_their_own():
    """Randomised response that keeps a bit three times in four: epsilon log 3."""
    rng = np.random.default_rng(2)
    one, other = rng.random(N) < 0.75, rng.random(N) < 0.25
    found = lower_bound(one.astype(float), other.astype(float))
    assert 1.05 <= found.epsilon <= math.log(3)
    assert lower_bound(np.zeros(100), np.zeros(100)).epsilon == 0


def test_a_gaussian_mechanism_is_bounded_by_its_mu():
    rng = np.random.default_rng(4)
    one, other = rng.normal(1, 1, N), rng.normal(0, 1, N)
    assert 0.93 < mu_lower_bound(one, other).mu <= 1.0
    assert mu_lower_bound(other, one).mu == pytest.approx(mu_lower_bound(one, other).mu, rel=0.1)


def test_the_ends_of_the_exact_interval():
    assert clopper_pearson(0, 10, 0.95) == (0.0, pytest.approx(1 - 0.025 ** (1 / 10)))
    assert clopper_pearson(10, 10, 0.95)[1] == 1.0


@pytest.mark.parametrize("slides", [False, True], ids=["as shipped", "as on the slides"])
def test_objective_perturbation(slides):
    """One row of +1 against the zero row, n lambda .1, epsilon .1: exactly .04 as shipped and 1.206 on the slides."""
    noise, loss = Seeded(5), Logistic()
    scale, more = (10.0, 0.0) if slides else perturbation(0.1, 1, 0.1, loss.curvature)

    def fitted(row):
        return minimum(np.array([[row]]), loss, 0.1 + more, noise.radial(1, scale))[0][0]

    runs = 4000
    one, other = (np.array([fitted(row) for _ in range(runs)]) for row in (1.0, 0.0))
    found = lower_bound(one, other, confidence=SURE if not slides else 0.95)
    assert found.epsilon > 0.3 if slides else found.epsilon <= 0.1


def coins(epsilon, pairs, rng):
    """The member of each pair is named as often as epsilon allows."""
    return np.where(rng.random(pairs) < 1 / (1 + np.exp(-epsilon)), 1.0, -1.0) * rng.random(pairs)


def test_one_training_that_gives_away_all_it_may_is_bounded_from_below_and_not_refused():
    rng = np.random.default_rng(seeds.seed(0))
    proved = [one_training(coins(1.0, 600, rng), 0.0, 1, 0.95).epsilon for _ in range(100)]
    assert np.mean(np.array(proved) > 1.0) <= 0.12  # 5 % at most, of a hundred
    assert 0.6 < np.median(proved) < 1.0


def test_a_unit_that_is_removed_for_one_that_is_added_takes_two_steps():
    gaps = coins(2.0, 600, np.random.default_rng(seeds.seed(0)))
    one, two = (one_training(gaps, 0.0, swaps, 0.95).epsilon for swaps in (1, 2))
    assert two == pytest.approx(one / 2, abs=2e-3)


def test_what_delta_allows_proves_no_epsilon():
    gaps = np.ones(100)
    assert one_training(gaps, 0.0, 1, 0.99).epsilon > 2.5
    # With this chance all may be given away, and that is no surprise at this confidence.
    assert one_training(gaps, 0.01, 1, 0.99).epsilon == 0
    assert 0 < one_training(gaps, 1e-6, 1, 0.99).epsilon <= one_training(gaps, 0.0, 1, 0.99).epsilon


def test_pairs_that_are_alike_prove_nothing():
    assert one_training(np.zeros(200), 0.0, 1, 0.95).epsilon == 0
