"""Model inversion: right by hand, blind to what it is not given, beside what is known without a model."""

import itertools

import numpy as np
import pytest

from edgeveil.trainer.attacks import model_inversion
from edgeveil.trainer.attacks.model_inversion import Figures, Histogram, invert, without_model

RNG = np.random.default_rng(0)
BIT = np.array([-1.0, 1.0])


def people(n=4000, seed=0):
    """Three bits: the sensitive one first, a copy of it that is right 97 times in 100, and one on its own."""
    rng = np.random.default_rng(seed)
    hidden = rng.choice(BIT, n, p=[0.6, 0.4])
    copy = np.where(rng.random(n) < 0.97, hidden, -hidden)
    x = np.stack([hidden, copy, rng.choice(BIT, n)], axis=1)
    return x, ((x[:, 0] > 0) ^ (rng.random(n) < 0.1)).astype(int)


def says_the_first(x):
    """A model that gives the sensitive attribute away."""
    return (x[:, 0] > 0).astype(int)


def figures_of(model, x, y, columns=(0,)):
    """Published with it, where ``columns`` are not known."""
    return Figures.counted(x, y, model(x), domains=dict.fromkeys(columns, BIT), classes=2)


def test_a_model_of_the_attribute_alone_gives_what_y_gives():
    x, y = people()
    guessed = invert(says_the_first, x, y, 0, figures_of(says_the_first, x, y), RNG)
    assert np.array_equal(guessed, BIT[y])


def test_a_model_that_says_one_thing_gives_the_marginal():
    x, y = people()

    def silent(rows):
        return np.zeros(len(rows), int)

    assert (invert(silent, x, y, 0, figures_of(silent, x, y), RNG) == -1).all()


def test_scores_are_those_of_the_paper_by_hand():
    """Section 2.2: the sum over x' that fit of pi(y, model(x')) times the marginals, one target at a time."""
    x, y = people(300)

    def model(rows):
        return (rows @ np.array([0.5, 0.4, 0.3]) > 0.1).astype(int)

    figures = figures_of(model, x, y, (0, 2))
    said = model(x)
    for target, label, guess in zip(x[:20], y, invert(model, x, y, 0, figures, RNG), strict=False):
        scores = dict.fromkeys(BIT, 0.0)
        for first, third in itertools.product(BIT, BIT):
            row = np.array([[first, target[1], third]])
            pi = (y[said == model(row)[0]] == label).mean()
            scores[first] += pi * (x[:, 0] == first).mean() * (x[:, 2] == third).mean()
        assert guess == max(scores, key=scores.get)


def test_what_is_not_known_is_not_read():
    x, y = people()
    hidden = x.copy()
    hidden[:, [0, 1]] = np.nan

    def model(rows):
        assert not np.isnan(rows).any()
        return (rows.sum(axis=1) > 0).astype(int)

    figures = figures_of(model, x, y, (0, 1))
    assert np.array_equal(invert(model, x, y, 0, figures, RNG), invert(model, hidden, y, 0, figures, RNG))


def test_of_too_many_combinations_some_are_drawn_by_their_marginals(monkeypatch):
    x, y = people()
    figures = figures_of(says_the_first, x, y, (0, 1, 2))
    whole = invert(says_the_first, x, y, 0, figures, RNG)
    monkeypatch.setattr(model_inversion, "MOST_COMBINATIONS", 3)
    drawn = model_inversion._combinations([Histogram(BIT, np.array([1, 0])), Histogram(BIT, np.array([0, 5]))], RNG)
    assert [row.tolist() for row, _ in drawn] == 3 * [[-1.0, 1.0]]
    assert sum(weight for _, weight in drawn) == pytest.approx(1)
    assert np.array_equal(invert(says_the_first, x, y, 0, figures, RNG), whole)


def test_a_class_that_the_model_never_says_tells_no_more_than_y():
    x, y = people()
    figures = figures_of(lambda rows: np.zeros(len(rows), int), x, y)
    assert figures.chance_of(y[:50], np.ones(50, int)) == pytest.approx(np.bincount(y)[y[:50]] / len(y))


def test_noised_figures_pay_for_every_table():
    x, y = people()
    scales = []

    def laplace(values, scale):
        scales.append(scale)
        return values - 1e9

    noised = figures_of(says_the_first, x, y, (0, 2)).noised(0.5, laplace)
    assert scales == [12.0] * 3  # three tables, each moved by 2, for half an epsilon
    assert noised.confusion.min() == 0
    assert noised.marginals[0].shares.tolist() == [0.5, 0.5]


def test_one_row_moves_every_table_by_two_at_most():
    x, y = people(50)
    moved = x.copy()
    moved[0] *= -1
    flipped = np.r_[1 - y[0], y[1:]]
    one, other = figures_of(says_the_first, x, y, (0, 2)), figures_of(says_the_first, moved, flipped, (0, 2))
    changes = [np.abs(one.confusion - other.confusion).sum()]
    changes += [np.abs(one.marginals[at].counts - other.marginals[at].counts).sum() for at in (0, 2)]
    assert changes == [2, 2, 2]


def test_what_is_known_without_the_model():
    x, y = people()
    targets, labels = people(seed=1)
    hidden = targets.copy()
    hidden[:, 0] = np.nan
    guesses = without_model((x, y), hidden, labels, 0, range(3), 0)
    right = {name: (guess == targets[:, 0]).mean() for name, guess in guesses.items()}
    assert right["marginal"] == pytest.approx(0.6, abs=0.04)
    assert right["y"] == pytest.approx(0.9, abs=0.03)
    assert right["attributes"] > 0.95
    alone = without_model((x, y), hidden, labels, 0, [2], 0)["attributes"]
    assert (alone == targets[:, 0]).mean() == pytest.approx(right["y"], abs=0.01)
