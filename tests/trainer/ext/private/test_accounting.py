"""Known figures of the subsampled Gaussian mechanism; the claim is a bound, and the noise for it the least."""

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext.private.per_example import claim, noise_for


def test_the_known_example_of_tensorflow_privacy():
    found = claim(rate=256 / 60_000, sigma=1.1, steps=14_040, delta=1e-5)
    assert found.rdp == pytest.approx(2.594, abs=0.002)
    assert found.pld == pytest.approx(2.380, abs=0.002)
    assert found.epsilon == found.pld
    assert found.accountant.startswith("dp-accounting 0.6")


@pytest.mark.parametrize(("epsilon", "sigma"), [(0.1, 10.963), (0.5, 2.633), (1, 1.551), (2, 1.055), (8, 0.625)])
def test_renyi_epsilon_of_known_noise(epsilon, sigma):
    assert claim(rate=100 / 7000, sigma=sigma, steps=500, delta=1e-5).rdp == pytest.approx(epsilon, rel=0.005)


@pytest.mark.parametrize(("sigma", "rdp", "pld"), [(4.84, 0.247, 0.225), (48.4, 0.0196, 0.0173)])
def test_the_noise_of_the_slides_is_that_of_one_step_and_spends_far_less(sigma, rdp, pld):
    """Paper 002 takes sqrt(2 log(1.25 / delta)) / epsilon, 4.84 at 1 and 48.4 at .1, for 500 steps of lots of 100."""
    found = claim(rate=100 / 7000, sigma=sigma, steps=500, delta=1e-5)
    assert found.rdp == pytest.approx(rdp, rel=0.01)
    assert found.pld == pytest.approx(pld, rel=0.02)
    assert found.grid == 1e-5


def test_the_least_noise_keeps_the_claim_and_less_does_not():
    found = noise_for(1.0, rate=0.05, steps=200, delta=1e-5)
    assert found.epsilon <= 1.0
    assert claim(rate=0.05, sigma=found.sigma * 0.995, steps=200, delta=1e-5).epsilon > 1.0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"epsilon": 0}, "epsilon above 0"),
        ({"epsilon": 51}, "up to 50"),
        ({"epsilon": 1, "delta": 0}, "delta between 0 and 1"),
        ({"epsilon": 1, "rate": 1.2}, "share above 0 and up to 1"),
        ({"epsilon": 1, "steps": 0}, "at least one step"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, said):
    with pytest.raises(BadInput, match=said):
        noise_for(**{"rate": 0.1, "steps": 10, "delta": 1e-5, **settings})


def test_noise_of_nothing_has_no_claim():
    with pytest.raises(BadInput, match="more than 0"):
        claim(rate=0.1, sigma=0.0, steps=10, delta=1e-5)


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_an_accountant_that_gives_no_finite_bound_is_refused():
    assert claim(rate=1.0, sigma=1e-3, steps=10, delta=1e-5).epsilon > 1e6  # a valid bound, in little memory
    with pytest.raises(BadInput, match="No finite bound for noise of 1e-200 times the clip"):
        claim(rate=1.0, sigma=1e-200, steps=10, delta=1e-5)
