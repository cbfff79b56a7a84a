"""The scan finds the subgroup that an attack recognises, tests it on other units, and otherwise finds nothing."""

from __future__ import annotations

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.scores.exposure import Judged
from edgeveil.trainer.attacks.scores.subgroups import holm, scan

PRIOR = np.array([[0.6, 0.4], [0.4, 0.6]])


def population(seed: int, *, known: float, units: int = 800, per_unit: int = 3) -> tuple[Judged, dict[str, np.ndarray]]:
    """An attack that knows z of a share ``known`` of people over 60 from the north, and P(z|y) otherwise."""
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(units), per_unit)
    age, north = rng.uniform(20, 80, units), rng.integers(0, 2, units)
    y = rng.integers(0, 2, units)
    z = (rng.random(units) < PRIOR[y, 1]).astype(int)
    exposed = (age > 65) & (north == 1)
    # Everywhere else the attack is fooled by noise, as attacks are.
    one = np.clip(PRIOR[y, 1] + rng.normal(0, 0.05, units), 0.05, 0.95)
    sure = exposed & (rng.random(units) < known)
    one[sure] = np.where(z[sure] == 1, 0.95, 0.05)
    p = np.stack([1 - one, one], axis=1)[unit]
    return Judged(p, y[unit], z[unit], unit), {"age": age[unit], "north": north[unit].astype(float)}


def test_the_exposed_subgroup_is_found_with_its_gain():
    test, attributes = population(0, known=1.0)
    found = scan(test, PRIOR, attributes, rng=np.random.default_rng(1))
    best = found[0]
    assert best.exposed
    assert best.name.startswith("age from 6")
    assert best.name.endswith("north = 1")
    # The last quarter of ages is 65 to 80: nearly all of it is exposed, at 45 points more than P(z|y).
    assert best.gain.estimate == pytest.approx(43, abs=5)
    assert best.gain.low > 35
    assert 30 <= best.units < 90
    assert best.rows == 3 * best.units


def test_of_one_hundred_populations_without_a_gain_few_have_an_exposed_subgroup():
    fired = 0
    for seed in range(100):
        test, attributes = population(seed, known=0.0, units=300)
        label = np.where(np.random.default_rng(seed).random(len(test.y)) < 0.2, 1 - test.y, test.y)
        fired += any(one.exposed for one in scan(test, PRIOR, attributes, label=label, rng=np.random.default_rng(seed)))
    assert fired <= 11  # at 5 %; 11 or more in one of a hundred runs


def test_rows_with_a_wrong_label_are_a_subgroup():
    rng = np.random.default_rng(3)
    y, z = rng.integers(0, 2, 4000), rng.integers(0, 2, 4000)
    label = np.where(rng.random(4000) < 0.1, 1 - y, y)
    p = np.where((label != y)[:, None], 0.1 + 0.8 * np.eye(2)[z], np.full((4000, 2), 0.5))
    found = scan(Judged(p, y, z), np.full((2, 2), 0.5), {}, label=label, rng=rng)
    assert found[0].name == "label right = False"
    assert found[0].gain.estimate == pytest.approx(40, abs=1)
    assert found[0].p < 1e-6


def test_unknown_values_are_in_no_subgroup():
    test, attributes = population(0, known=1.0)
    attributes["age"][::2] = np.nan
    assert scan(test, PRIOR, attributes, rng=np.random.default_rng(1))[0].exposed


def test_few_rows_are_not_searched_and_wrong_lengths_are_refused():
    test, attributes = population(0, known=1.0, units=10)
    assert scan(test, PRIOR, attributes, rng=np.random.default_rng(1)) == []
    with pytest.raises(BadInput, match="'age' has 2 values for 30 test rows"):
        scan(test, PRIOR, {"age": np.zeros(2)}, rng=np.random.default_rng(1))


def test_holm_corrects_each_by_how_many_are_left():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
