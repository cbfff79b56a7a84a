"""The permutation test keeps its level where nothing leaks, also for clusters, and finds what does."""

from __future__ import annotations

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.measures.permutation import permutation_test

PRIOR = np.array([[0.6, 0.4], [0.4, 0.6]])


def answers(rows: int, units: int, known: float, seed: int) -> tuple[np.ndarray, ...]:
    """An attack's probabilities that follow z with that weight and noise shared by a unit; y, z, unit."""
    rng = np.random.default_rng(seed)
    unit = np.arange(rows) % units
    y = rng.integers(0, 2, units)[unit]
    z = (rng.random(units)[unit] < PRIOR[y, 1]).astype(int)
    odds = known * (2 * z - 1) + rng.normal(size=units)[unit]
    one = 1 / (1 + np.exp(-odds * 0.3 - np.log(PRIOR[y, 1] / PRIOR[y, 0])))
    return np.stack([1 - one, one], axis=1), y, z, unit


def fires(known: float, *, clusters: bool, units: int, level: float = 0.05, tries: int = 200) -> float:
    """How often p is at most ``level``."""
    found = 0
    for seed in range(tries):
        p, y, z, unit = answers(400, units, known, seed)
        cluster = unit if clusters else None
        found += (
            permutation_test(PRIOR, p, y, z, cluster, shuffles=99, rng=np.random.default_rng(seed)).p <= level + 1e-9
        )
    return found / tries


def test_it_fires_as_often_as_its_level_says_where_nothing_leaks():
    assert 0.005 < fires(0.0, clusters=False, units=400) < 0.1
    assert 0.005 < fires(0.0, clusters=True, units=40) < 0.1
    # The clusters matter: of 40 people with 10 alike rows each, tested as 400 rows, it would fire often.
    assert fires(0.0, clusters=False, units=40) > 0.2


def test_it_finds_what_leaks():
    p, y, z, _ = answers(400, 400, 1.0, 0)
    found = permutation_test(PRIOR, p, y, z, rng=np.random.default_rng(0))
    assert found.p == 1 / 1000
    assert found.gain > found.null_high
    assert (found.shuffles, found.swapped) == (999, "rows")


def test_who_says_what_y_says_has_no_gain_and_ties_count_against_it():
    _, y, z, _ = answers(400, 400, 0.0, 0)
    found = permutation_test(PRIOR, PRIOR[y], y, z, rng=np.random.default_rng(0))
    assert (found.p, found.gain) == (1.0, 0.0)


def test_z_never_leaves_its_y():
    """z differs between y, and the attack knows y alone but better than the prior given: that is no leak of x'."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    z = (rng.random(600) < PRIOR[y, 1]).astype(int)
    found = permutation_test(np.full((2, 2), 0.5), PRIOR[y], y, z, rng=rng)
    assert found.gain > 0.01
    assert found.p == 1.0


def test_clusters_swap_as_a_whole_where_they_share_z():
    p, y, z, unit = answers(400, 40, 0.0, 3)
    rng = np.random.default_rng(0)
    assert permutation_test(PRIOR, p, y, z, unit, shuffles=9, rng=rng).swapped == "clusters"
    several_y = np.where(np.arange(400) < 40, 1 - y, y)
    assert permutation_test(PRIOR, p, several_y, z, unit, shuffles=9, rng=rng).swapped == "clusters"
    several_z = np.where(np.arange(400) < 40, 1 - z, z)
    assert permutation_test(PRIOR, p, y, several_z, unit, shuffles=9, rng=rng).swapped == "rows of clusters"


def test_the_same_seed_gives_the_same_p():
    p, y, z, _ = answers(300, 300, 0.1, 1)
    once, again = (permutation_test(PRIOR, p, y, z, shuffles=199, rng=np.random.default_rng(4)) for _ in range(2))
    assert once == again


def test_nothing_to_test_is_refused():
    empty = np.empty(0, int)
    with pytest.raises(BadInput, match="needs rows"):
        permutation_test(PRIOR, np.empty((0, 2)), empty, empty, rng=np.random.default_rng(0))
