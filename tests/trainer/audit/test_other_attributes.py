"""A neighbour of z that leaks is found by name, on real digits; where nothing leaks nothing is surely read."""

from dataclasses import replace

import numpy as np
import pytest

from edgeveil.trainer.attacks.problem import BUDGETS, Released
from edgeveil.trainer.attacks.rows import question_of
from edgeveil.trainer.attacks.run_all import run
from edgeveil.trainer.audit.sections.other_attributes import COUNTING, Labelled, labels_of, section
from edgeveil.trainer.datasets import load
from edgeveil.trainer.datasets.base import Dataset, Known
from edgeveil.trainer.recipe.schema import Recipe
from scripts.audit_rows import labels_of as rows_of


@pytest.fixture(scope="module")
def digits() -> Dataset:
    """The data of the demo's codebook: y is parity, z is less-than-five, and the digit is known."""
    return load(Recipe.find("digits-codebook"))


def asked(dataset: Dataset, secret: np.ndarray) -> dict:
    """The section of a perturber that sends a picture of the same y and ``secret``, whoever it is of."""
    rows, rng = dataset.slices.rows(), np.random.default_rng(0)
    donors = np.empty(len(rows), np.int64)
    for value in np.unique(2 * secret + dataset.y):
        few = np.flatnonzero(2 * secret + dataset.y == value)[:6]
        places = np.flatnonzero((2 * secret + dataset.y)[rows] == value)
        donors[places] = rng.choice(few, len(places))
    part = dataset.rows(rows)
    released = Released(dataset.x[donors], part.y, part.z, part.cluster)
    question = question_of(dataset, released, BUDGETS["quick"], {"sensitive": None}, seed=0)
    of_z = run(question, families=COUNTING).kept
    return rows_of(section(dataset, released, BUDGETS["quick"], 0, of_z=of_z))


def test_a_neighbour_that_leaks_is_found_by_name(digits):
    digit = digits.known["digit"].values
    found = asked(digits, (digit < 3).astype(int))
    assert [row["name"] for row in found["labels"]] == ["less-than-five", "digit"]
    assert found["questions"] == 1 + 511 + 9
    assert found["worst"]["question"] == "whether digit is below 3"
    assert found["worst"]["auc"]["low"] > 0.97
    assert found["worst"]["bits"]["low"] > 0.7
    assert found["worst"]["p"] <= 0.01
    z = found["labels"][0]["worst_grouping"]
    assert z["question"] == "less-than-five itself"
    assert z["auc"]["mean"] < found["worst"]["auc"]["mean"] - 0.05
    assert "five-or-more" not in str(found)


def test_where_only_y_is_sent_nothing_else_is_read(digits):
    found = asked(digits, np.zeros(len(digits.y), np.int64))
    questions = [row[kind] for row in found["labels"] for kind in ("worst_grouping", "worst_threshold") if row[kind]]
    assert len(questions) == 3
    assert not any(one["read"] for one in questions)
    assert all(abs(row["bits"]["mean"]) < 0.05 for row in found["labels"])


def with_known(digits: Dataset, **labels: Known) -> Dataset:
    return replace(digits, known={**digits.known, **labels})


def test_what_cannot_be_asked_is_named_with_the_reason(digits):
    digit, n = digits.known["digit"].values, len(digits.y)
    rare = np.zeros(n, np.int64)
    rare[:3] = 1
    known = with_known(
        digits,
        odd=Known(1 - digits.y, ("a", "b")),
        big=Known(1 - digits.z, ("big", "small")),
        round=Known((digit == 0).astype(np.int64), ("no", "yes")),
        rare=Known(rare, ("no", "yes")),
    )
    asked, skipped = labels_of(Labelled.from_dataset(known))
    assert [label.name for label in asked] == ["less-than-five", "digit"]
    reasons = dict(skipped)
    assert reasons["odd"] == "it follows from y"
    assert reasons["big"] == "it is z under another name"
    assert reasons["round"] == "it is one of the groupings of digit"
    assert reasons["rare"].startswith("cannot tell: all but its commonest value need 20 rows to learn on and 5 to test")
    assert "parity" not in reasons


def test_rare_classes_are_put_together_and_numbers_are_asked_about_by_thresholds(digits):
    rng, n = np.random.default_rng(0), len(digits.y)
    age = rng.integers(20, 90, n)
    colour = np.where(rng.random(n) < 0.01, rng.integers(2, 6, n), rng.integers(0, 2, n))
    made = with_known(
        digits,
        age=Known(age - 20, tuple(str(one) for one in range(20, 90)), ordered=True),
        colour=Known(colour, tuple("abcdef")),
    )
    made = replace(made, attributes={"weight": rng.normal(70, 9, n)})
    found = {label.name: label for label in labels_of(Labelled.from_dataset(made))[0]}
    assert found["age"].ordered
    assert 20 < len(found["age"].names) < 70
    assert any(" to " in name for name in found["age"].names)
    assert sorted(found["colour"].names) in (["a", "b or 4 rarer ones"], ["a or 4 rarer ones", "b"])
    assert len(found["weight"].names) == 10
    assert not found["weight"].grouped


def test_a_label_of_many_values_without_order_has_bits_alone(digits):
    people = Known(np.arange(len(digits.y)) % 30, tuple(f"p{one}" for one in range(30)))
    found = asked(replace(digits, known={"person": people}), digits.known["digit"].values < 3)
    z, person = found["labels"]
    assert z["name"] == "z"
    assert (person["classes"], person["worst_grouping"], person["worst_threshold"]) == (30, None, None)
    assert found["worst"] is None
