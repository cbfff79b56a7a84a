"""The chance of so many hits above a threshold that was read from few others: against closed forms and counts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from edgeveil.trainer.attacks.exposure import Stratum, p_value


@pytest.mark.parametrize(
    "one", [Stratum(225, 225, 2), Stratum(100, 100, 1), Stratum(60, 20, 0), Stratum(3000, 3500, 35)]
)
@pytest.mark.parametrize("hits", [1, 3, 9])
def test_of_a_class_like_the_others_the_hits_are_beta_binomial(one, hits):
    exact = stats.betabinom.sf(hits - 1, one.positives, one.allowed + 1, one.negatives - one.allowed)
    assert p_value(hits, (one,), 1.0) == pytest.approx(exact, rel=1e-5)


def test_thresholds_of_several_strata_are_counted_together():
    strata, ratio = (Stratum(225, 225, 2), Stratum(120, 330, 3)), 3.0
    rng = np.random.default_rng(0)
    counted = sum(
        rng.binomial(
            one.positives, np.minimum(1, ratio * rng.beta(one.allowed + 1, one.negatives - one.allowed, 100_000))
        )
        for one in strata
    )
    for hits in (10, 20, 30):
        assert p_value(hits, strata, ratio) == pytest.approx(np.mean(counted >= hits), abs=0.005)


def test_no_hit_proves_nothing_and_all_of_them_everything():
    strata = (Stratum(225, 225, 2),)
    assert p_value(0, strata, 3.0) == 1.0
    assert p_value(225, strata, 3.0) < 1e-9
    assert p_value(0, (), 3.0) == 1.0  # no row of the class
    assert p_value(10, (Stratum(10, 1, 0),), 3.0) > 0.6  # one other says little of all others
