"""Count-mean sketches on the board: hash functions by their definition, alike for one seed, and what is sent."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest

from edgeveil.edge_runtime.stages import cms
from edgeveil.edge_runtime.stages.hcms import HadamardCountMean

P = 2**31 - 1


def by_hand(seed: int, row: int, width: int, x: int) -> int:
    """docs/reference/bundle-format.md, in whole numbers of any size."""
    digest = hashlib.sha256(f"edgeveil sketch {seed} {row}".encode()).digest()
    a, b, c = (int.from_bytes(digest[8 * i : 8 * i + 8], "little") % P for i in range(3))
    return ((a * x + b) * x + c) % P % width


def test_the_hash_functions_are_those_of_the_page():
    categories = [0, 1, 77, 4095, 65_535, 2**20 - 1]
    for seed, width in ((0, 8), (2**53, 1024), (5, 4096)):
        hashes = cms.Hashes(seed, 6, width)
        rows, xs = (np.array(column) for column in zip(*itertools.product(range(6), categories), strict=True))
        found = hashes.places(rows, xs).tolist()
        assert found == [by_hand(seed, row, width, x) for row, x in itertools.product(range(6), categories)]
    assert cms.Hashes(1, 6, 8).places(rows, xs).tolist() != cms.Hashes(2, 6, 8).places(rows, xs).tolist()


def test_three_categories_have_places_that_are_independent():
    """Over 16,384 functions: pairs collide once in 8, triples once in 64, and every place is as likely."""
    rows, width = 2**14, 8
    hashes = cms.Hashes(3, rows, width)
    a, b, c = (hashes.places(np.arange(rows), np.full(rows, x)) for x in (0, 1, 65_535))
    assert np.abs(np.bincount(a, minlength=width) / rows - 1 / width).max() < 0.013  # 5 deviations
    for one, other in ((a, b), (b, c), (a, c)):
        assert abs((one == other).mean() - 1 / width) < 0.013
    assert abs(((a == b) & (b == c)).mean() - 1 / width**2) < 0.005


def test_what_is_sent_of_a_place():
    kept = np.ones((3, 16), bool)
    kept[1] = False
    kept[2, 0] = False
    sent = cms.bits(np.array([9, 9, 3]), np.array([5, 258, 0]), kept)
    number, bits = cms.unpacked(sent, 16)
    assert (sent.dtype, sent.shape) == (np.uint8, (3, 6))
    assert number.tolist() == [5, 258, 0]
    assert [np.flatnonzero(row).tolist() for row in bits] == [[9], [i for i in range(16) if i != 9], [0, 3]]


@pytest.mark.parametrize("kind", [cms.CountMean(), HadamardCountMean()])
@pytest.mark.parametrize("alpha", [0.01, 1, 4, 20])
def test_the_integers_cost_no_more_than_was_asked(kind, alpha):
    made = kind.design("label", 65_536, alpha, seed=1)
    spent = kind.epsilon(made.stages[-1], made.stages[:-1], None)
    assert alpha - 1e-8 <= spent <= alpha
