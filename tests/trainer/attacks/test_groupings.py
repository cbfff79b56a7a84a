"""The worst of many questions is the one that leaks, and chosen on validation it does not flatter where none does."""

from __future__ import annotations

import numpy as np
import pytest

from edgeveil.trainer.attacks.exposure import MOST_CUTS, Judged, groupings, thresholds, worst
from edgeveil.trainer.measures.attack_metrics import area_within_y, auc_within_y

AGES = 8
PRIOR = np.full((2, AGES), 1 / AGES)


def attacked(rows: int, seed: int, *, known: float) -> Judged:
    """An attack that knows of a share ``known`` of the rows whether age is below 3; two rows of each person."""
    rng = np.random.default_rng(seed)
    z, person = np.repeat(rng.integers(0, AGES, rows // 2), 2), np.arange(rows // 2).repeat(2)
    p = np.full((rows, AGES), 1 / AGES) + rng.uniform(0, 0.02, (rows, AGES))
    below = np.arange(AGES) < 3
    sure = rng.random(rows) < known
    p[sure] *= np.where(below[None] == below[z[sure]][:, None], 9, 1)
    return Judged(p / p.sum(axis=1, keepdims=True), np.repeat(rng.integers(0, 2, rows // 2), 2), z, person)


def test_questions_are_all_thresholds_and_each_grouping_once():
    assert thresholds(3).tolist() == [[True, False, False], [True, True, False]]
    assert len(thresholds(300)) == MOST_CUTS
    assert thresholds(300).sum(axis=1)[[0, -1]].tolist() == [1, 299]
    sides = groupings(12)
    assert len(sides) == 2047
    both = np.concatenate([sides, ~sides])
    assert len(np.unique(both, axis=0)) == 2 * 2047
    assert 0 < both.sum(axis=1).min() <= both.sum(axis=1).max() < 12


@pytest.mark.parametrize("sides", [thresholds(AGES), groupings(AGES)])
def test_the_side_that_leaks_is_found(sides):
    choose, test = (attacked(2000, seed, known=0.5) for seed in (0, 1))
    found = worst(sides, choose, test, PRIOR, rng=np.random.default_rng(0))
    assert set(np.flatnonzero(found.side)) in ({0, 1, 2}, {3, 4, 5, 6, 7})
    assert found.auc.low > 0.7
    assert found.bits.low > 0.2
    assert found.p == 1 / 2500


@pytest.mark.nightly  # by day the side that leaks, above
def test_the_worst_of_127_questions_is_not_significant_where_nothing_leaks():
    fired = 0
    for seed in range(60):
        choose, test = (attacked(300, 2 * seed + part, known=0.0) for part in (0, 1))
        found = worst(groupings(AGES), choose, test, PRIOR, rng=np.random.default_rng(seed))
        fired += found.p <= 0.05
        assert found.bits.low < 0.05
    assert fired <= 8  # at 5 %; more in one of 200 runs


def test_what_y_alone_tells_is_no_question():
    choose, test = (attacked(200, seed, known=0.0)._replace(y=np.zeros(200, int)) for seed in (0, 1))
    told = [part._replace(y=(part.z < 4).astype(int)) for part in (choose, test)]
    assert worst(thresholds(AGES)[3:4], *told, PRIOR, rng=np.random.default_rng(0)) is None


def test_the_interval_of_an_area_covers_it_and_is_wider_over_people():
    rng, hits = np.random.default_rng(0), 0
    for _ in range(200):
        y, positive = rng.integers(0, 2, 120).repeat(2), rng.random(120).repeat(2) < 0.4
        # Two rows of a person have one score: of two with one y and different answers, 76 % are in order.
        score = rng.normal(size=120).repeat(2) + positive
        people = area_within_y(score, y, positive, np.arange(120).repeat(2))
        rows = area_within_y(score, y, positive)
        assert people.estimate == rows.estimate
        assert people.high - people.low > 1.3 * (rows.high - rows.low)
        hits += people.low <= 0.7602 <= people.high
    assert 180 <= hits <= 199
    two = np.stack([-score, score], axis=1)
    assert rows.estimate == pytest.approx(auc_within_y(two, y, positive.astype(int)))
    assert np.isnan(area_within_y(score, positive.astype(int), positive).estimate)
