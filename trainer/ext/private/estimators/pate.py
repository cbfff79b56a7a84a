"""PATE: teachers of disjoint people vote on unlabelled public rows, with noise; a linear student learns the winners.

N. Papernot and others, "Scalable Private Learning with PATE", ICLR 2018, section 4.1: GNMax. The votes of a row are a
count for each class; the class with the most of them after Gaussian noise is the row's label. Another person in one's
place changes one teacher, whatever the teacher learns, and so one vote of each row: counts move by at most sqrt(2)
(Euclidean). Noise of deviation sigma thus spends a Renyi divergence of a / sigma^2 of each order a for each row (their
proposition 8), and all rows together as many times that. This is the bound of the worst votes: what the votes were is
not used, so that epsilon itself reveals nothing.

Votes are whole numbers, and their noise is the discrete Gaussian, whose divergences are no larger (Canonne, Kamath and
Steinke 2020) and which has no last bits to read. All else, the student too, is made of the noisy labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import softmax
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data
from threadpoolctl import threadpool_limits

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext.private.cover import Guarantee
from edgeveil.trainer.ext.private.estimators import fitting
from edgeveil.trainer.ext.private.estimators.fitting import LinearClassifier, shares
from edgeveil.trainer.ext.private.noise import Noise, noise_of
from edgeveil.trainer.ext.private.per_example import by_rdp

ONE_VOTE = math.sqrt(2)  # how far one person moves the votes of a row
FEWEST_TEACHERS = 2
FEWEST_QUERIES = 5  # for each class
MOST_STEPS = 100  # of a regression; where it ends promises nothing and costs nothing


@dataclass(frozen=True)
class Votes:
    """``queries`` rows on which ``teachers`` vote, with noise of deviation ``sigma``, and what it all spends."""

    teachers: int
    queries: int
    sigma: float
    epsilon: float
    delta: float

    def as_dict(self) -> dict[str, Any]:
        """For a record."""
        return asdict(self)


def votes_for(epsilon: float, *, teachers: int, queries: int, delta: float) -> Votes:
    """The least noise, to a thousandth of a vote, that spends at most ``epsilon`` at ``delta``."""

    def spent(sigma: float) -> float:
        return by_rdp(1.0, sigma / ONE_VOTE, queries, delta)

    low, high = -3.0, 3.0  # ln sigma
    while spent(math.exp(high)) > epsilon:
        high += 1
    while spent(math.exp(low)) <= epsilon:
        low -= 1
    exact = math.exp(brentq(lambda at: spent(math.exp(at)) - epsilon, low, high, xtol=1e-6))
    sigma = math.ceil(exact * 1000) / 1000
    while spent(sigma) > epsilon:
        sigma = round(sigma + 0.001, 3)
    return Votes(teachers, queries, sigma, spent(sigma), delta)


def dealt(people: Sequence[np.ndarray], teachers: int, noise: Noise) -> list[np.ndarray]:
    """The rows of each teacher: ``people`` has the row numbers of each person, and every person has one teacher."""
    order = np.argsort(noise.uniform((len(people),)))
    return [np.concatenate([people[at] for at in part]) for part in np.array_split(order, teachers)]


def noisy_winners(votes: np.ndarray, sigma: float, noise: Noise) -> np.ndarray:
    """The class with the most votes of each row (n,), after noise; ``votes`` whole (n, classes)."""
    noisy: np.ndarray = noise.whole_gaussian(votes.ravel(), sigma).reshape(votes.shape)
    return noisy.argmax(axis=1)


def softmax_regression(x: np.ndarray, y: np.ndarray, classes: int, regularization: float) -> np.ndarray:
    """Weights (classes, d) with the least mean cross entropy of rows x (n, d) and the numbers y (n,) of their classes,
    plus ``regularization``/2 |weights|^2. A class that no row has gets low scores."""
    hot, rows = np.eye(classes)[y], np.arange(len(x))

    def risk(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(classes, -1)
        scores = x @ weights.T
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores)
        total = chances.sum(axis=1, keepdims=True)
        slope = (chances / total - hot).T @ x / len(x) + regularization * weights
        loss = (np.log(total[:, 0]) - scores[rows, y]).mean()
        return float(loss + regularization / 2 * flat @ flat), slope.ravel()

    with threadpool_limits(1, user_api="blas"):  # threads that wait for each other take ten times as long
        start = np.zeros(classes * x.shape[1])
        found = minimize(risk, start, jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS})
    return np.asarray(found.x).reshape(classes, -1)


@dataclass(eq=False, repr=False)  # scikit-learn reads the settings from the signature of __init__
class PATEClassifier(LinearClassifier):
    """A linear student with (``epsilon``, ``delta``)-differential privacy for each person behind its teachers.

    ``teachers``: how many, each of people of its own. ``queries``: on so many public rows they vote; None: on all that
    are given. ``delta``: None for a tenth of one person's share. ``regularization``: of teachers and student, the
    weight of |w|^2 / 2 next to the mean loss. ``random_state``: None for secret noise; a seed makes fits alike, and
    then nothing is promised.

    >>> PATEClassifier(8.0, teachers=50).fit(X, y, people=people, public=rows).guarantee_  # doctest: +SKIP
    """

    epsilon: float = 1.0
    _: KW_ONLY
    delta: float | None = None
    teachers: int = 50
    queries: int | None = None
    regularization: float = 1e-2
    fit_intercept: bool = True
    classes: Any = None
    random_state: Any = None

    def fit(self, X: Any, y: Any, *, people: Any = None, public: Any = None) -> PATEClassifier:
        """Rows X (n, d), classes y (n,), the number or name of each row's person ``people`` (n,), and ``public`` rows
        (m, d) without labels. Raises ``ValueError`` (a ``BadInput``) for settings that mean nothing.

        Sets ``coef_``, ``intercept_``, ``classes_``, ``epsilon_``, ``private_``, ``guarantee_`` (None where nothing is
        promised), ``votes_`` (a ``Votes``) and ``labels_``, the noisy labels of the first ``queries`` public rows.
        """
        fitting.check_epsilon(self.epsilon)
        if people is None or public is None:
            raise fitting.Unbounded(
                "Expected people=, whose each row is, and public=, rows without labels: one person is one teacher's, "
                "and the student learns from public rows alone."
            )
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, given = fitting.public_classes(y, self.classes)
        public = validate_data(self, public, dtype=np.float64, reset=False)
        _, person = np.unique(np.asarray(people), return_inverse=True)
        if person.shape != (len(X),):
            raise fitting.Unbounded(f"Expected a person for each of the {len(X)} rows; got {person.shape}.")
        mine = [np.flatnonzero(person == one) for one in range(person.max() + 1)]
        with fitting.as_value_error():
            queries = check(len(mine), len(public), len(self.classes_), self.teachers, self.queries)
            delta = 0.1 / len(mine) if self.delta is None else self.delta
            check_delta(delta, len(mine))
        self.votes_ = votes_for(self.epsilon, teachers=self.teachers, queries=queries, delta=delta)
        noise = noise_of(self.random_state)
        asked = self._with_constant(public[:queries])
        rows, labels = self._with_constant(X), np.searchsorted(self.classes_, y)
        counts = np.zeros((queries, len(self.classes_)), np.int64)
        for part in dealt(mine, self.teachers, noise):
            weights = softmax_regression(rows[part], labels[part], len(self.classes_), self.regularization)
            counts[np.arange(queries), (asked @ weights.T).argmax(axis=1)] += 1
        won = noisy_winners(counts, self.votes_.sigma, noise)
        self.labels_ = self.classes_[won]
        weights = softmax_regression(asked, won, len(self.classes_), self.regularization)
        if len(self.classes_) == 2:
            weights = weights[1:] - weights[:1]
        self.coef_ = weights[:, :-1] if self.fit_intercept else weights
        self.intercept_ = weights[:, -1] if self.fit_intercept else np.zeros(len(weights))
        self.epsilon_, self.private_ = self.votes_.epsilon, noise.private
        rests_on = [given, "a public number of people", "a person's rows that are with one teacher alone"]
        outside = [f"the {queries:,} rows that the student learned from, which count as public"]
        spent = Guarantee(self.epsilon_, delta, "person", "replace", "the fitted coefficients", rests_on, outside)
        self.guarantee_ = spent if self.private_ else None
        return self

    def _with_constant(self, x: np.ndarray) -> np.ndarray:
        return np.hstack([x, np.ones((len(x), 1))]) if self.fit_intercept else x

    def predict_proba(self, X: Any) -> np.ndarray:
        """P(class | row), (n, classes)."""
        scores = self.decision_function(X)
        return shares(1 / (1 + np.exp(-scores))) if scores.ndim == 1 else softmax(scores, axis=1)


def check(people: int, rows: int, classes: int, teachers: int, queries: int | None) -> int:
    """How many of the ``rows`` public rows are asked. Raises ``BadInput`` where people and queries do not fit."""
    if teachers < FEWEST_TEACHERS:
        raise BadInput(f"Expected at least {FEWEST_TEACHERS} teachers; got {teachers}.")
    if people < teachers:
        raise BadInput(f"Expected at least as many people as the {teachers} teachers; got {people}. Use fewer.")
    asked = rows if queries is None else queries
    if not FEWEST_QUERIES * classes <= asked <= rows:
        raise BadInput(
            f"Expected {FEWEST_QUERIES * classes} to {rows:,} queries, {FEWEST_QUERIES} for each class and no more "
            f"than there are public rows; got {asked:,}."
        )
    return asked


def check_delta(delta: float, people: int) -> None:
    """Raise ``BadInput`` for a delta that is no chance, or not below one person's share."""
    if not 0 < delta < 1 / people:
        raise BadInput(f"Expected a delta above 0 and below 1 / {people:,}, one person's share; got {delta:g}.")
