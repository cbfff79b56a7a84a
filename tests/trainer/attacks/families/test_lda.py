"""Discriminants within each y or over all: the one that reads more of rows that it did not learn from is taken."""

import numpy as np
import pytest

from edgeveil.trainer.attacks.families import lda
from edgeveil.trainer.attacks.problem import BUDGETS, Problem, Released, cut
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.measures import attack_metrics

PEOPLE, LIGHTS, VALUES = 12, 4, 30


def posed(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Problem:
    """Two thirds of the rows to learn from, the others to test."""
    rows, learn = Released(x, y, z), len(y) * 2 // 3
    seen, test = rows.take(slice(learn)), rows.take(slice(learn, len(y)))
    counted = attack_metrics.counted_prior(seen.y, seen.z, (LIGHTS, PEOPLE))
    theta = np.full((LIGHTS, PEOPLE), 1 / PEOPLE)
    fit, stop, choose = cut(seen, 0)
    space = InputSpec("vector", (VALUES,), "float32", None, None)
    return Problem(space, theta, counted, fit, stop, choose, test, BUDGETS["quick"])


def rows(per_pair: int, means: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shuffled rows about ``means`` (lights, people, values)."""
    y, z = (axis.reshape(-1).repeat(per_pair) for axis in np.indices((LIGHTS, PEOPLE)))
    order = rng.permutation(len(y))
    x = means[y, z] + 0.6 * rng.normal(size=(len(y), VALUES))
    return x[order].astype(np.float32), y[order], z[order]


@pytest.fixture
def ways(monkeypatch):
    """Whether each fit of discriminants was one over all y, the one that was taken last."""
    seen, fit = [], lda._discriminants
    monkeypatch.setattr(lda, "_discriminants", lambda *args: seen.append(args[-1]) or fit(*args))
    return seen


@pytest.mark.parametrize(
    ("per_pair", "shared", "over_all"),
    [(3, 1.0, True), (60, 0.0, False)],
    ids=["a person has few rows of each light and looks alike in all", "each light has its own look of a person"],
)
def test_the_way_is_taken_that_reads_more(per_pair, shared, over_all, ways):
    rng = np.random.default_rng(5)
    person, both = rng.normal(size=(1, PEOPLE, VALUES)), rng.normal(size=(LIGHTS, PEOPLE, VALUES))
    light = 4 * rng.normal(size=(LIGHTS, 1, VALUES))
    asked = posed(*rows(per_pair, light + shared * person + (1 - shared) * both, rng))
    attack = lda.ShrinkageLDA().fit(asked, 0)
    assert ways == [False, True, over_all]
    answers = attack.probabilities(asked.test)
    assert np.allclose(answers.sum(axis=1), 1)
    assert (answers.argmax(axis=1) == asked.test.z).mean() > 0.85


def test_over_all_the_counted_shares_of_each_y_weigh_the_answer(ways):
    rng = np.random.default_rng(6)
    person = rng.normal(size=(1, PEOPLE, VALUES))
    x, y, z = rows(6, np.repeat(person, LIGHTS, axis=0), rng)
    shown = (z + y) % 2 == 0  # with each y half of the people are never seen
    asked = posed(x[shown], y[shown], z[shown])
    attack = lda.ShrinkageLDA().fit(asked, 0)
    assert ways[-1]
    never = (np.arange(PEOPLE)[None] + asked.test.y[:, None]) % 2 == 1
    assert attack.probabilities(asked.test)[never].max() < 0.05
