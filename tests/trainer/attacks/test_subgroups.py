"""The subgroup that an attack recognises is found and tested on other units; where it recognises none, none is."""

from __future__ import annotations

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.exposure import Judged, holm, search
from edgeveil.trainer.attacks.parts import Labels, Part, parts

PRIOR = np.array([[0.6, 0.4], [0.4, 0.6]])


def population(seed: int, *, known: float, units: int = 800, per_unit: int = 3) -> tuple[Judged, dict[str, np.ndarray]]:
    """An attack that knows z of a share ``known`` of people over 60 from the north, and P(z|y) otherwise."""
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(units), per_unit)
    age, north = rng.uniform(20, 80, units), rng.integers(0, 2, units)
    y = rng.integers(0, 2, units)
    z = (rng.random(units) < PRIOR[y, 1]).astype(int)
    exposed = (age > 65) & (north == 1)
    # Everywhere else the attack is fooled by noise, as attacks are, and bolder than P(z|y), as some are.
    one = np.clip(0.5 + 1.3 * (PRIOR[y, 1] - 0.5) + rng.normal(0, 0.05, units), 0.05, 0.95)
    sure = exposed & (rng.random(units) < known)
    one[sure] = np.where(z[sure] == 1, 0.95, 0.05)
    p = np.stack([1 - one, one], axis=1)[unit]
    told = np.where(rng.random(units) < 0.9, z, 1 - z)
    return Judged(p, y[unit], z[unit], unit), {"age": age[unit], "north": north[unit] * 1.0, "told": told[unit]}


def subgroups(seed: int, test: Judged, attributes: dict[str, np.ndarray]) -> list[Part]:
    """The subgroups, tested; another population chooses."""
    choose, _ = population(seed + 1000, known=0.0, units=300)
    found = parts(choose, test, PRIOR, attributes, rng=np.random.default_rng(seed))
    return sorted((one for one in found if one.kind == "subgroup"), key=lambda one: one.p)


def test_the_exposed_subgroup_is_found_with_its_gain():
    test, attributes = population(0, known=1.0)
    found = search(test, PRIOR, attributes, rng=np.random.default_rng(1))
    assert found[0].name.startswith("age from 6")
    assert found[0].name.endswith("north = 1")
    # The last quarter of ages is 65 to 80: nearly all of it is exposed, and gains almost all of 0.97 bits.
    rows = subgroups(1, test, attributes)
    best = next(one for one in rows if one.name == found[0].name)
    assert best.p < 0.01
    assert best.bits.estimate == pytest.approx(0.85, abs=0.1)
    assert best.bits.low > 0.6
    assert best.right.low > 0.85
    assert 30 <= best.units < 90
    assert best.rows == 3 * best.units


@pytest.mark.nightly  # by day one population, beside it
def test_of_one_hundred_populations_without_a_gain_few_have_an_exposed_part():
    """Neither a bold attack nor an attribute that tells z itself looks like a leak."""
    fired = 0
    for seed in range(100):
        test, attributes = population(seed, known=0.0, units=200)
        label = np.where(np.random.default_rng(seed).random(len(test.y)) < 0.2, 1 - test.y, test.y)
        choose, _ = population(seed + 1000, known=0.0, units=200)
        labels = Labels(choose.y, label)
        found = parts(choose, test, PRIOR, attributes, label=labels, rng=np.random.default_rng(seed))
        fired += any(one.p is not None and one.p <= 0.02 for one in found)
    assert fired <= 4  # at 1 % (half of the level); more in one of 300 runs


def test_rows_with_a_wrong_label_are_a_subgroup():
    rng = np.random.default_rng(3)
    y, z = rng.integers(0, 2, 4000), rng.integers(0, 2, 4000)
    label = np.where(rng.random(4000) < 0.1, 1 - y, y)
    p = np.where((label != y)[:, None], 0.1 + 0.8 * np.eye(2)[z], np.full((4000, 2), 0.5))
    test, prior = Judged(p, y, z), np.full((2, 2), 0.5)
    assert search(test, prior, {}, label=label, rng=rng)[0].name == "class sent is y = False"
    found = {one.name: one for one in parts(test, test, prior, {}, label=Labels(label, label), rng=rng)}
    for name in ("wrong label", "class sent is y = False"):
        assert found[name].p < 0.01
        assert found[name].bits.estimate == pytest.approx(1 + np.log2(0.9), abs=0.01)


def test_unknown_values_are_in_no_subgroup():
    test, attributes = population(0, known=1.0)
    attributes["age"][::2] = np.nan
    assert subgroups(1, test, attributes)[0].p < 0.01


def test_few_rows_are_not_searched_and_wrong_lengths_are_refused():
    test, attributes = population(0, known=1.0, units=10)
    assert search(test, PRIOR, attributes, rng=np.random.default_rng(1)) == []
    with pytest.raises(BadInput, match="'age' has 2 values for 30 test rows"):
        search(test, PRIOR, {"age": np.zeros(2)}, rng=np.random.default_rng(1))


def test_rows_of_people_whose_z_varies_are_not_tested_by_swapping_rows():
    test, attributes = population(0, known=1.0)
    z = np.random.default_rng(0).integers(0, 2, len(test.z))
    found = parts(test, test._replace(z=z), PRIOR, attributes, rng=np.random.default_rng(1))
    assert [one.p for one in found] == [None] * len(found)


def test_holm_corrects_each_by_how_many_are_left():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
