"""Intervals cover what they say, clustered rows included."""

import numpy as np
import pytest

from edgeveil.trainer.measures import intervals


def test_wilson_is_the_published_interval():
    # Brown, Cai & DasGupta (2001), eq. 4, at 8 of 10: (0.4902, 0.9433).
    low, high = intervals.wilson(0.8, 10)
    assert (low, high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_a_rate_at_its_end_still_has_an_interval(p):
    found = intervals.rate(np.full(50, p))
    assert found.low <= found.estimate == p <= found.high
    assert found.high - found.low > 0.05


def test_rows_of_their_own_clusters_are_nearly_independent_rows():
    hits = np.arange(500) % 3 == 0
    alone, clustered = intervals.rate(hits), intervals.rate(hits, np.arange(500))
    assert clustered.low == pytest.approx(alone.low, abs=0.002)
    assert clustered.high == pytest.approx(alone.high, abs=0.002)


def test_a_single_cluster_says_nothing():
    assert intervals.rate(np.array([1, 1, 0, 1]), np.zeros(4)) == (0.75, 0.0, 1.0)
    assert intervals.rate(np.array([])).high == 1.0


def test_all_right_in_three_clusters_is_not_certainty():
    found = intervals.rate(np.ones(300), np.repeat([0, 1, 2], 100))
    assert found.low < 0.4


@pytest.mark.nightly  # by day rows of their own clusters, above
@pytest.mark.parametrize("spread", [2.0, 20.0])
def test_clustered_intervals_cover_where_plain_ones_do_not(spread):
    """20 people of 30 rows each, rates drawn around .7 with a spread between people."""
    rng = np.random.default_rng(7)
    cluster = np.repeat(np.arange(20), 30)
    covered = {"plain": 0, "clustered": 0}
    trials = 400
    for _ in range(trials):
        rates = rng.beta(0.7 * spread, 0.3 * spread, 20)
        hits = rng.random(600) < rates[cluster]
        for name, found in (("plain", intervals.rate(hits)), ("clustered", intervals.rate(hits, cluster))):
            covered[name] += found.low <= 0.7 <= found.high
    assert covered["clustered"] / trials >= 0.92
    assert covered["plain"] < covered["clustered"]


@pytest.mark.nightly  # by day rates, above
def test_mean_covers_and_clusters_widen_it():
    rng = np.random.default_rng(3)
    cluster = np.repeat(np.arange(25), 40)
    covered, trials = 0, 300
    for _ in range(trials):
        values = rng.normal(0, 1, 25)[cluster] + rng.normal(0, 1, 1000)
        found = intervals.mean(values, cluster)
        covered += found.low <= 0 <= found.high
    assert covered / trials >= 0.92
    assert found.high - found.low > 3 * (intervals.mean(values).high - intervals.mean(values).low)
