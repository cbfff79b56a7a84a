"""PATE: what votes spend, whose vote one person moves, a student that ships as a head, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer import datasets
from edgeveil.trainer.audit.sections import head as head_section
from edgeveil.trainer.export.export import export
from edgeveil.trainer.ext.private import cover
from edgeveil.trainer.ext.private import encoder as private_head
from edgeveil.trainer.ext.private.estimators import PATEClassifier, pate
from edgeveil.trainer.ext.private.noise import Secret, Seeded
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Head
from edgeveil.trainer.train import train
from tests.support.small_runs import private_recipe, write_npz

PATE = {"kind": "pate", "epsilon": 20.0, "teachers": 40, "students": 0.3, "queries": 120}


def of_people(people):
    """Digits in the unit cube: 1,300 rows, labels and made-up people, so many; and other rows with their labels."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y, cut = x[order] / 16, y[order], 1300
    return x[:cut], y[:cut], np.arange(cut) % people, x[cut:], y[cut:]


def closed_form(sigma, queries, delta):
    """The least of a queries / sigma^2 + ln((a - 1) / a) - ln(delta a) / (a - 1) over orders a (Canonne et al.)."""
    a = 1 + np.logspace(-3, 4, 200_000)
    spent = a * queries / sigma**2 + np.log1p(-1 / a) - (math.log(delta) + np.log(a)) / (a - 1)
    return max(0.0, float(spent.min()))


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 20.0])
@pytest.mark.parametrize("queries", [20, 1000])
def test_votes_spend_what_renyi_divergences_of_sqrt_2_say(epsilon, queries):
    found = pate.votes_for(epsilon, teachers=10, queries=queries, delta=1e-5)
    assert closed_form(found.sigma, queries, 1e-5) <= found.epsilon * (1 + 1e-6)
    assert 0.98 * epsilon < found.epsilon <= epsilon
    assert closed_form(found.sigma - 0.01, queries, 1e-5) > 0.9 * epsilon
    assert closed_form(found.sigma / math.sqrt(2), queries, 1e-5) > epsilon  # of a vote that moved by 1


def test_a_person_moves_one_teachers_vote_whatever_they_change():
    """With the same deal, counts of a row differ by at most one vote moved, for any rows of one person."""
    rng = np.random.default_rng(0)
    people = [np.arange(6 * one, 6 * one + 6) for one in range(60)]
    parts = pate.dealt(people, 12, Seeded(5))
    assert sorted(np.concatenate(parts).tolist()) == list(range(360))
    assert [len(part) // 6 for part in parts] == [5] * 12
    assert all(sum(bool(np.isin(mine, part).any()) for part in parts) == 1 for mine in people)
    x, y, asked = rng.normal(size=(360, 3)), rng.integers(0, 3, 360), rng.normal(size=(50, 3))

    def counts(x, y):
        found = np.zeros((50, 3), np.int64)
        for part in parts:
            weights = pate.softmax_regression(x[part], y[part], 3, 1e-3)
            found[np.arange(50), (asked @ weights.T).argmax(axis=1)] += 1
        return found

    before, (other_x, other_y) = counts(x, y), (x.copy(), y.copy())
    other_x[people[7]], other_y[people[7]] = 1e3 * rng.normal(size=(6, 3)), 2
    moved = counts(other_x, other_y) - before
    assert (np.linalg.norm(moved, axis=1) <= pate.ONE_VOTE + 1e-12).all()
    assert np.abs(moved).sum() > 0


def test_noise_of_votes_is_whole_and_of_the_deviation_asked_for():
    noisy = Secret().whole_gaussian(np.full(40_000, 7), 2.5)
    assert noisy.dtype == np.int64
    assert noisy.mean() == pytest.approx(7, abs=6 * 2.5 / 200)
    assert noisy.std() == pytest.approx(2.5, rel=0.03)
    assert (pate.noisy_winners(np.array([[0, 9, 3], [5, 0, 0]]), 1e-3, Secret()) == [1, 0]).all()


def test_a_student_reads_digits_that_its_teachers_voted_on():
    x, y, people, rest, truth = of_people(325)
    found = PATEClassifier(10.0, delta=1e-4, teachers=50, queries=100, classes=range(10))
    found.fit(x, y, people=people, public=rest)
    assert found.score(rest[100:], truth[100:]) > 0.75
    assert (found.labels_ == truth[:100]).mean() > 0.75
    said = str(found.guarantee_)
    assert "Replacing one person by any other" in said
    assert "100 rows that the student learned from, which count as public" in said
    assert found.votes_.queries == 100
    assert found.votes_.epsilon <= 10
    assert found.predict_proba(rest[:5]).sum(axis=1) == pytest.approx(1)


def test_little_epsilon_leaves_little_to_learn():
    x, y, people, rest, truth = of_people(325)
    found = PATEClassifier(0.1, delta=1e-4, teachers=50, queries=100, classes=range(10))
    assert found.fit(x, y, people=people, public=rest).score(rest[100:], truth[100:]) < 0.4


def test_a_class_that_no_vote_chose_is_the_least_likely():
    weights = pate.softmax_regression(np.ones((30, 1)), np.repeat([0, 2], 15), 4, 1e-2)
    assert set(np.argsort(weights[:, 0])[:2]) == {1, 3}


def test_a_seed_promises_nothing():
    x, y, people, rest, _ = of_people(450)
    fits = [
        PATEClassifier(5.0, teachers=3, queries=60, random_state=1).fit(x, y, people=people, public=rest)
        for _ in range(2)
    ]
    assert fits[0].guarantee_ is None
    assert (fits[0].coef_ == fits[1].coef_).all()


@pytest.mark.parametrize(
    ("settings", "given", "words"),
    [
        ({}, {"people": None}, "people="),
        ({}, {"public": None}, "rows without labels"),
        ({"teachers": 451}, {}, "at least as many people as the 451 teachers; got 450"),
        ({"teachers": 1}, {}, "at least 2 teachers"),
        ({"queries": 49}, {}, "50 to 497 queries"),
        ({"queries": 498}, {}, "50 to 497 queries"),
        ({"delta": 0.01}, {}, "below 1 / 450"),
        ({}, {"people": np.arange(3)}, "a person for each of the 1300 rows"),
    ],
)
def test_what_does_not_fit_is_refused(settings, given, words):
    x, y, people, rest, _ = of_people(450)
    with pytest.raises(ValueError, match=words):
        PATEClassifier(1.0, **settings).fit(x, y, **{"people": people, "public": rest, **given})


# As a head of a recipe.


def asked(path, head=PATE, **private):
    recipe = private_recipe(path, lot=32, **private)
    return Recipe.check({**recipe.model_dump(exclude_none=True), "head": head})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_npz(tmp_path_factory.mktemp("pate"), rows=3000, subject=np.arange(3000) // 6)


def fitted(recipe):
    dataset = datasets.load(recipe).for_training()
    private_head.check(recipe, dataset)
    return private_head.fit(recipe.head, dataset, lambda x: x), dataset


def test_a_student_ships_with_its_votes_and_promise(data):
    (found, facts), dataset = fitted(asked(data))
    part = dataset.part("perturber")
    assert (found.predict(dataset.unit(part.x)) == part.y).mean() > 0.85
    assert found.weights.shape == (2, 6)
    assert found.promise["epsilon"] == pytest.approx(20, rel=0.02)
    assert (found.promise["unit"], found.promise["neighbours"]) == ("subject", "replace")
    votes = facts["votes"]
    assert (votes["teachers"], votes["queries"]) == (40, 120)
    assert f"40 teachers, 120 votes with Gaussian noise of deviation {votes['sigma']:g}" in found.mechanism
    assert "120 rows that the student learned from" in found.promise["outside"][0]
    assert not any("one reading of each" in one for one in found.promise["given"])


def test_labels_of_the_students_own_people_are_not_used(data):
    recipe = asked(data, {**PATE, "random_state": 4})
    (before, _), dataset = fitted(recipe)
    index = dataset.part("classifiers").index
    theirs = index[dataset.units.second[index] < PATE["students"]]
    y = dataset.y.copy()
    y[theirs] = 1 - y[theirs]
    after, _ = private_head.fit(recipe.head, replace(dataset, y=y), lambda x: x)
    np.testing.assert_array_equal(after.weights, before.weights)


def test_the_votes_spend_at_least_something_and_no_more_than_claimed(data, monkeypatch):
    recipe = asked(data)
    (_, facts), _ = fitted(recipe)
    found = head_section.measured(facts, recipe.head, 2, 0.999)
    assert found.more["holds"]
    assert found.value > 0.2 * found.more["claimed"]
    facts["votes"]["sigma"] *= 2  # as if half of the noise were drawn
    monkeypatch.setattr(Secret, "whole_gaussian", lambda _, values, sigma: Seeded(0).whole_gaussian(values, sigma / 4))
    assert not head_section.measured(facts, recipe.head, 2, 0.999).more["holds"]


@pytest.mark.usefixtures("coarse_accountant")
def test_a_bundle_has_the_students_label_and_what_its_fit_promises(data, tmp_path):
    run = train(asked(data), tmp_path / "run")
    exported = export(run.folder, ["workstation"], tmp_path / "export", emit="both")
    mark = exported.manifest["training"]["marks"]["models"]["head"]
    head = Head.of_run(run.folder)
    assert mark == cover.head_mark(head.mechanism, head.promise)
    assert "PATE: 40 teachers, 120 votes" in mark
    assert "delta" in mark
    found = cover.head_section(exported.manifest, head.mechanism, head.promise)
    assert found["given"]
    assert "count as public" in found["sentence"]


@pytest.mark.parametrize(
    ("head", "private", "words"),
    [
        ({**PATE, "teachers": 5000}, {}, "as many people as the 5000 teachers"),
        ({**PATE, "queries": 9}, {}, "10 to .* queries"),
        ({**PATE, "queries": 100_000}, {}, "queries"),
        ({**PATE, "delta": 0.5}, {}, "one person's share"),
        (PATE, {"unit": "row"}, "one teacher for each person"),
    ],
)
def test_a_recipe_whose_people_do_not_fit_is_refused_before_anything_is_trained(data, tmp_path, head, private, words):
    with pytest.raises(BadInput, match=words) as caught:
        train(asked(data, head, **private), tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_without_a_people_column_it_is_refused(tmp_path):
    path = write_npz(tmp_path, rows=2000)
    with pytest.raises(BadInput, match=r"name the person of each row.*data\.subject"):
        train(asked(path, unit="row"), tmp_path / "run")


def test_the_share_of_students_has_no_default(data):
    with pytest.raises(BadInput, match=r"head.*students"):
        asked(data, {key: value for key, value in PATE.items() if key != "students"})
