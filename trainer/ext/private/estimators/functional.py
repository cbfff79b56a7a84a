"""How far one row can move the coefficients of a quadratic objective: what the functional mechanism's noise must hide.

A row x of |x_j| <= 1 adds a linear part to the coefficients of w and a quadratic part xx^T. Let another row x' take its
place, p = x - x', q = x + x'. Then xx^T - x'x'^T = (pq^T + qp^T) / 2, and |p_j| + |q_j| <= 2 for each j: with P and Q
their l1 norms, P + Q <= 2d. The quadratic part moves by at most PQ, the linear one by P where the labels are alike and
by Q where they are not, which is the same by symmetry. So the l1 change is at most

    max over 0 <= P <= 2d of  linear P + quadratic P (2d - P),

which is (d + 2)^2 / 8 for logistic regression (Taylor's objective, weights 1/2 and 1/8) and (d + 1)^2 for linear
regression (2 and 1). Papers use d^2/4 + 3d and 2d^2 + 4d (Zhang et al. 2012; paper 004, results 1 and 2): valid, and
larger.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from edgeveil.trainer.ext.private.estimators import fitting
from edgeveil.trainer.ext.private.estimators.fitting import LinearClassifier, Noisy, predicted, shares
from edgeveil.trainer.ext.private.noise import Noise, noise_of


class Weights(NamedTuple):
    """What the linear and the quadratic part weigh in an objective."""

    linear: float
    quadratic: float


LOGISTIC = Weights(1 / 2, 1 / 8)
LINEAR = Weights(2.0, 1.0)


def most_moved(weights: Weights, ordinary: int, sensitive: int = 0, gamma: float = 1.0) -> float:
    """max of F_n + gamma F_s: the l1 change of coefficients without and with one of the sensitive attributes.

    By blocks: ``ordinary`` attributes share P_n + Q_n <= 2 ordinary, sensitive ones P_s + Q_s <= 2 sensitive. The
    maximum of a quadratic function on a rectangle lies inside, on an edge or in a corner, and all are tried.
    """

    def moved(p_n: float, p_s: float) -> float:
        q_n, q_s = 2 * ordinary - p_n, 2 * sensitive - p_s
        plain = weights.linear * p_n + weights.quadratic * p_n * q_n
        touched = weights.linear * p_s + weights.quadratic * (p_n * q_s + p_s * q_n + p_s * q_s)
        return plain + gamma * touched

    return max(moved(*point) for point in _candidates(weights, ordinary, sensitive, gamma))


def _candidates(weights: Weights, ordinary: int, sensitive: int, gamma: float) -> Iterator[tuple[float, float]]:
    """Where the maximum can be. The gradient of ``moved`` is g - H (p_n, p_s)."""
    high_n, high_s = 2.0 * ordinary, 2.0 * sensitive
    a, b = weights
    g_n = a + b * high_n + gamma * b * high_s
    g_s = gamma * (a + b * high_n + b * high_s)
    h_nn, h_ns, h_ss = 2 * b, 2 * gamma * b, 2 * gamma * b

    def inside(value: float, high: float) -> float:
        return min(max(value, 0.0), high)

    for p_s in (0.0, high_s):
        for p_n in (0.0, high_n, inside((g_n - h_ns * p_s) / h_nn, high_n)):
            yield p_n, p_s
    for p_n in (0.0, high_n):
        yield p_n, inside((g_s - h_ns * p_n) / h_ss, high_s)
    determinant = h_nn * h_ss - h_ns**2
    if determinant > 0:
        p_n = (g_n * h_ss - g_s * h_ns) / determinant
        p_s = (g_s * h_nn - g_n * h_ns) / determinant
        yield inside(p_n, high_n), inside(p_s, high_s)


def of_the_paper(weights: Weights, attributes: int) -> float:
    """Delta of paper 004, results 1 and 2."""
    return attributes**2 / 4 + 3 * attributes if weights == LOGISTIC else 2 * (attributes**2 + 2 * attributes)


def split_of_the_paper(attributes: int, sensitive: int, gamma: float, epsilon: float) -> tuple[float, float]:
    """(epsilon_n, epsilon_s) of algorithm 1, line 14, with the betas of results 1 and 2.

    These count kd of the 2kd - k^2 ordered pairs that touch one of k sensitive attributes, so less than epsilon is
    spent.
    """
    beta = sensitive / attributes
    ordinary = epsilon / (1 - beta + gamma * beta)
    return ordinary, gamma * ordinary


# Regressions by the functional mechanism: noise on the coefficients of a quadratic objective, then its minimum.
#
# Zhang et al., "Functional Mechanism: Regression Analysis under Differential Privacy", VLDB 2012; with split budgets,
# so that attributes of one's choice get more noise, paper 004, algorithm 1. Neighbours differ in one row, replaced.


Calibration = Literal["exact", "paper"]


class Scales(NamedTuple):
    """Of the Laplace noise on coefficients without and with a sensitive attribute."""

    ordinary: float
    sensitive: float


def scales(
    weights: Weights, attributes: int, sensitive: int, *, gamma: float, epsilon: float, calibration: Calibration
) -> Scales:
    """What spends ``epsilon`` in all ("exact"), or what paper 004 adds ("paper")."""
    if calibration == "paper":
        delta = of_the_paper(weights, attributes)
        ordinary, touched = split_of_the_paper(attributes, sensitive, gamma, epsilon)
        return Scales(delta / ordinary, delta / touched)
    delta = most_moved(weights, attributes - sensitive, sensitive, gamma)
    return Scales(delta / epsilon, delta / (gamma * epsilon))


def noisy_minimum(
    quadratic: np.ndarray, linear: np.ndarray, touched: np.ndarray, scale: Scales, noise: Noise
) -> np.ndarray:
    """The w (d,) with the least w^T M w + a.w, for M (d, d) and a (d,) with noise on every monomial.

    ``touched`` (d,) marks the sensitive attributes. The coefficient of w_i w_j is 2 M_ij, so M_ij gets half its noise.
    A ridge of four deviations of the noise is added, and directions that still curve down are left out (Zhang et al.,
    section 6): both use noisy values alone.
    """
    d = len(linear)
    rows, columns = np.triu_indices(d)
    monomials = np.where(rows == columns, 1.0, 2.0) * quadratic[rows, columns]
    drawn = np.concatenate([linear, monomials])
    sensitive = np.concatenate([touched, touched[rows] | touched[columns]])
    drawn[~sensitive] = noise.laplace(drawn[~sensitive], scale.ordinary)
    if sensitive.any():
        drawn[sensitive] = noise.laplace(drawn[sensitive], scale.sensitive)
    linear, monomials = drawn[:d], drawn[d:]
    matrix = np.zeros((d, d))
    matrix[rows, columns] = monomials / np.where(rows == columns, 1.0, 2.0)
    matrix = matrix + np.triu(matrix, 1).T + 4 * math.sqrt(2) * scale.ordinary * np.eye(d)
    values, vectors = np.linalg.eigh(matrix)
    up = values > 0
    return -vectors[:, up] @ ((vectors[:, up].T @ linear) / (2 * values[up]))


@dataclass(eq=False, repr=False)  # scikit-learn reads the settings from the signature of __init__
class _Functional:
    """Settings, bounds and budgets of both regressions."""

    epsilon: float = 1.0
    _: KW_ONLY
    bounds: Any = None
    sensitive: Sequence[int] | None = None
    gamma: float = 1.0
    calibration: Calibration = "exact"
    fit_intercept: bool = True
    random_state: Any = None

    def _cube(self, X: np.ndarray) -> np.ndarray:
        """Rows in the cube [-1, 1]^d, clipped and counted, with a 1 for the intercept. Checks every setting."""
        fitting.check_epsilon(self.epsilon)
        if not 0 < self.gamma <= 1:
            raise fitting.Unbounded(f"Expected a gamma above 0 and up to 1; got {self.gamma}.")
        if self.calibration not in ("exact", "paper"):
            raise fitting.Unbounded(f'Expected the calibration "exact" or "paper"; got {self.calibration!r}.')
        columns = [] if self.sensitive is None else list(self.sensitive)
        if not all(isinstance(at, int | np.integer) and 0 <= at < X.shape[1] for at in columns):
            raise fitting.Unbounded(f"Expected sensitive columns of 0 to {X.shape[1] - 1}; got {columns}.")
        low, high = fitting.public_bounds(self.bounds, X.shape[1])
        fitting.warn_of_few(len(X))
        self._middle, self._half = (high + low) / 2, (high - low) / 2
        rows = (X - self._middle) / self._half
        self.clipped_ = int((np.abs(rows) > 1).any(axis=1).sum())
        rows = np.clip(rows, -1, 1)
        self._touched = np.isin(np.arange(X.shape[1] + self.fit_intercept), columns)
        return np.hstack([rows, np.ones((len(rows), 1))]) if self.fit_intercept else rows

    def _weights(self, rows: np.ndarray, slope: np.ndarray, kind: Weights, epsilon: float, noise: Noise) -> np.ndarray:
        """Minimise sum of quadratic (row w)^2 + slope row w over the ``rows`` (n, d), with noise."""
        scale = scales(
            kind,
            rows.shape[1],
            int(self._touched.sum()),
            gamma=self.gamma,
            epsilon=epsilon,
            calibration=self.calibration,
        )
        return noisy_minimum(kind.quadratic * rows.T @ rows, slope @ rows, self._touched, scale, noise)

    def _keep(self, weights: np.ndarray, noise: Noise, given: list[str]) -> None:
        """``weights`` (k, d) of the cube as coefficients of rows as they come; and what the fit promises."""
        slopes = weights[:, : len(self._half)] / self._half
        constant = weights[:, -1] if self.fit_intercept else np.zeros(len(weights))
        self.coef_, self.intercept_ = slopes, constant - slopes @ self._middle
        self.epsilon_, self.private_ = self.epsilon, noise.private
        given = ["rows clipped to the public bounds", *given]
        self.guarantee_ = fitting.guarantee(self.epsilon, given=given) if self.private_ else None


@dataclass(eq=False, repr=False)
class FunctionalLogisticRegression(_Functional, LinearClassifier):
    """Logistic regression by the functional mechanism, ``epsilon``-private for each row.

    ``bounds``: public (low, high) of every feature, two numbers or two arrays (d,). ``sensitive``: columns that get
    1 / ``gamma`` times the noise. ``calibration``: "exact", or "paper" for paper 004's own figures. ``random_state``:
    None for secret noise; a seed makes fits alike, and then nothing is promised.
    """

    _: KW_ONLY
    classes: Any = None

    def fit(self, X: Any, y: Any) -> FunctionalLogisticRegression:
        """Rows X (n, d) and classes y (n,), by Taylor's quadratic of the loss. Raises ``ValueError`` (``BadInput``).

        Sets ``coef_``, ``intercept_``, ``classes_``, ``epsilon_``, ``private_``, ``guarantee_`` (None where nothing is
        promised) and ``clipped_``, how many rows lay outside the bounds.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, given = fitting.public_classes(y, self.classes)
        rows = self._cube(X)
        noise = noise_of(self.random_state)
        problems = fitting.signs(y, self.classes_)
        share = self.epsilon / len(problems)
        weights = np.stack([self._weights(rows, -sign / 2, LOGISTIC, share, noise) for sign in problems])
        self._keep(weights, noise, [given])
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """P(class | row), (n, classes); of more than two classes one against the rest, made to sum to 1."""
        return shares(expit(self.decision_function(X)))


@dataclass(eq=False, repr=False)
class FunctionalLinearRegression(Noisy, _Functional, RegressorMixin, BaseEstimator):
    """Linear regression by the functional mechanism; ``target_bounds``: public (low, high) of y."""

    _: KW_ONLY
    target_bounds: tuple[float, float] | None = None

    def fit(self, X: Any, y: Any) -> FunctionalLinearRegression:
        """Rows X (n, d) and values y (n,). Raises ``ValueError`` (``BadInput``). Sets what the logistic one does."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        low, high = fitting.public_bounds(self.target_bounds, 1, "target_bounds")
        rows = self._cube(X)
        middle, half = float(high[0] + low[0]) / 2, float(high[0] - low[0]) / 2
        unit = np.clip((y - middle) / half, -1, 1)
        noise = noise_of(self.random_state)
        weights = self._weights(rows, -2 * unit, LINEAR, self.epsilon, noise)
        self._keep(half * weights[None, :], noise, ["values of y clipped to theirs"])
        self.intercept_ = self.intercept_ + middle
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The value of each row (n,)."""
        return predicted(self, X)
