"""The slices of [private]: where a unit is depends on nobody else."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.base import PARTS
from edgeveil.trainer.datasets.slicing import cut_by_unit, fit_and_validation, units_of
from tests.support.small_runs import private_recipe, write_npz

RNG = np.random.default_rng(0)
PEOPLE = np.repeat(np.arange(400), 5)
SESSIONS = np.tile(np.arange(5), 400)


def units(asked=None, *, subject=None, session=None, whole=None, people=None, seed=0, rows=2000):
    people = subject is not None if people is None else people
    return units_of(rows, asked, subject=subject, session=session, kept_whole=whole, people=people, seed=seed)


def where(found):
    """The slice of each row, and whether it is held out there."""
    slices = cut_by_unit(found, rng=np.random.default_rng(0))
    place = np.full(len(found.number), -1)
    for number, part in enumerate(PARTS):
        place[getattr(slices, part)] = number
    return place, found.second < 0.2


def test_without_some_units_all_others_stay_where_they_are():
    place, held = where(units(subject=PEOPLE, whole="subject"))
    left = ~np.isin(PEOPLE, [3, 77, 250])
    others, others_held = where(units(subject=PEOPLE[left], whole="subject", rows=left.sum()))
    assert np.array_equal(place[left], others)
    assert np.array_equal(held[left], others_held)
    assert not np.array_equal(place, where(units(subject=PEOPLE, whole="subject", seed=1))[0])


def test_a_person_is_in_one_slice_also_where_rows_are_guarded():
    for asked in ("subject", "row"):
        found = units(asked, subject=PEOPLE, whole="subject")
        place, held = where(found)
        for values in (place, held):
            assert (values.reshape(400, 5) == values.reshape(400, 5)[:, :1]).all()
        assert len(found.rows(np.arange(2000))) == {"subject": 400, "row": 2000}[asked]
    place, _ = where(units("row", subject=PEOPLE, session=SESSIONS, whole="session"))
    assert not (place.reshape(400, 5) == place.reshape(400, 5)[:, :1]).all()


def test_slices_are_of_about_one_size_and_a_fifth_is_held_out():
    place, held = where(units(rows=20_000))
    assert set(place) == {0, 1, 2, 3}
    assert np.abs(np.bincount(place) - 5000).max() < 400  # 6.5 deviations
    assert abs(held.mean() - 0.2) < 0.02
    few = cut_by_unit(units(rows=20_000), rng=np.random.default_rng(0), rows=2000)
    assert abs(len(few.rows()) - 2000) < 300
    assert len(cut_by_unit(units(rows=600), rng=np.random.default_rng(0)).attack) == 0


def test_the_rows_of_each_unit_are_found():
    found = units(subject=RNG.permutation(PEOPLE), whole="subject")
    rows = np.flatnonzero(RNG.random(2000) < 0.5)
    groups = found.rows(rows)
    assert sorted(np.concatenate(groups)) == list(range(len(rows)))
    assert all(len(set(found.number[rows[group]])) == 1 for group in groups)
    assert len(groups) == len(set(found.number[rows]))


def test_people_are_the_unit_where_the_data_name_them():
    assert units(subject=PEOPLE, whole="subject").kind == "subject"
    assert units("row", subject=PEOPLE, whole="subject").kind == "row"
    assert units().kind == "row"
    with pytest.raises(BadInput, match="do not say whose a row is"):
        units("subject")
    with pytest.raises(BadInput, match="z nearly says who it is"):
        units(people=True)


def test_labels_have_no_say_in_what_a_recipe_cuts(tmp_path):
    """Others' labels move nobody; without [private] they do."""
    path = write_npz(tmp_path, rows=1200)
    with np.load(path) as file:
        arrays = dict(file)
    cut = {}
    for number in (0, 1):
        recipe = private_recipe(path)
        for name, asked in (("private", recipe), ("plain", recipe.model_copy(update={"private": None}))):
            dataset = datasets.load(asked)
            cut[name, number] = (
                dataset.slices.rows().tolist(),
                fit_and_validation(dataset, "perturber")[1].index.tolist(),
            )
        arrays["z"][: len(arrays["z"]) // 2] ^= 1
        np.savez(path, **arrays)
    assert cut["private", 0] == cut["private", 1]
    assert cut["plain", 0] != cut["plain", 1]


def test_bounds_must_be_public_and_uniform_asks_no_labels(tmp_path):
    path = write_npz(tmp_path, rows=1200)
    with np.load(path) as file:
        arrays = dict(file)
    arrays["z"][(arrays["y"] == 0) & (np.arange(1200) % 3 == 0)] = 2  # never with the other y
    np.savez(path, **arrays)
    recipe = private_recipe(path)
    dataset = datasets.load(recipe)
    np.testing.assert_array_equal(dataset.theta, np.full((2, 3), 1 / 3))
    assert (dataset.input.low, dataset.input.high) == ((-5.0,) * 6, (10.0,) * 6)
    bare = recipe.data.model_copy(update={"low": None, "high": None})
    with pytest.raises(BadInput, match="nothing that ships may be taken from training rows"):
        datasets.load(recipe.model_copy(update={"data": bare}))
