"""stages.draw: exact draws, by feeding every word where there are few, and by chi-square on the real generator."""

import inspect
import itertools

import numpy as np
import pytest
from scipy import stats

from edgeveil.edge_runtime.manifest.manifest import Stage
from edgeveil.edge_runtime.stages import draw as stages
from edgeveil.edge_runtime.stages import kind_of
from edgeveil.edge_runtime.stages.draw import COIN

UNLIKELY = 1e-9  # of a right generator to be called wrong


def chi_square(counts, expected):
    return stats.chisquare(counts, np.asarray(expected) / np.sum(expected) * np.sum(counts)).pvalue


def test_words_have_fair_bits_and_may_be_overwritten():
    drawn = stages.words((5000, 3))
    assert drawn.shape == (5000, 3)
    assert drawn.dtype == np.uint32
    assert drawn.flags.writeable
    bits = np.unpackbits(drawn.view(np.uint8)).reshape(-1, 32).sum(axis=0)
    assert min(chi_square([ones, 15_000 - ones], [1, 1]) for ones in bits) > UNLIKELY / 32


def test_a_coin_is_true_below_its_numerator_and_not_from_it_on():
    for numerator in (1, 5, COIN // 2, COIN - 1):
        edge = np.array([numerator - 1, numerator, 0, COIN - 1], np.uint64) << np.uint64(2)
        # The two bits that a coin has no need of do not count.
        fed = (edge | np.uint64(3)).tobytes()
        drawn = stages.coins((4,), numerator=numerator, random_bytes=lambda count, fed=fed: fed[:count])
        assert drawn.tolist() == [True, False, True, numerator == COIN]


@pytest.mark.parametrize("share", [0.01, 0.5, 0.731])
def test_coins_fall_as_they_should(share):
    drawn = stages.coins((40_000, 2), numerator=int(share * COIN))
    assert drawn.dtype == bool
    assert chi_square([drawn.sum(), (~drawn).sum()], [share, 1 - share]) > UNLIKELY


def test_whole_numbers_are_uniform():
    drawn = stages.whole_numbers((10_000, 4), bound=6)
    assert drawn.shape == (10_000, 4)
    assert chi_square(np.bincount(drawn.ravel(), minlength=6), np.ones(6)) > UNLIKELY


@pytest.mark.parametrize(("k", "of"), [(1, 1), (1, 5), (2, 4), (3, 5), (4, 4)])
def test_every_subset_is_equally_likely(k, of):
    drawn = stages.subsets((30_000, k), of=of)
    assert (np.diff(drawn, axis=1) > 0).all()
    number = {places: i for i, places in enumerate(itertools.combinations(range(of), k))}
    counts = np.bincount([number[tuple(row)] for row in drawn.tolist()], minlength=len(number))
    assert len(number) == 1 or chi_square(counts, np.ones(len(number))) > UNLIKELY


def test_a_subset_is_exact_over_every_word():
    """2 of 4: the draws are an integer below 3 and one below 4; each pair of them leads to one subset, each to two."""
    firsts, seconds = (grid.ravel() for grid in np.meshgrid(np.arange(3), np.arange(4)))
    fed = iter([firsts.astype(np.uint64).tobytes(), seconds.astype(np.uint64).tobytes()])
    drawn = stages.subsets((12, 2), of=4, random_bytes=lambda count: next(fed)[:count])
    found, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(found) == 6
    assert set(counts) == {2}


@pytest.mark.parametrize("kind", ["words", "coin", "integer", "subset"])
def test_a_stage_draws_its_distribution(kind):
    stage = {"stage": "draw", "distribution": kind, "output": "o", "shape": [2], "numerator": 5, "bound": 7, "of": 9}
    drawn = kind_of(stage).drawing(Stage(stage))((3, 2))
    assert drawn.shape == (3, 2)
    assert drawn.dtype == {"words": np.uint32, "coin": bool}.get(kind, np.int64)


def test_the_operating_system_draws_by_default():
    for function in (stages.words, stages.coins, stages.whole_numbers, stages.subsets):
        assert inspect.signature(function).parameters["random_bytes"].default.__name__ == "urandom"
    assert "np.random" not in inspect.getsource(stages)
