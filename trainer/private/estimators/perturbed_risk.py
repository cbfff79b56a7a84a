"""Logistic regression and a Huber support vector machine, private by a perturbed objective or output.

Chaudhuri, Monteleoni and Sarwate, "Differentially Private Empirical Risk Minimization", JMLR 2011: algorithm 2
(objective) and algorithm 1 (output). The form on the slides of paper 003 leaves out the correction of epsilon and the
factor 2, and is not epsilon-private. Neighbours differ in one row, replaced.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from edgeveil.trainer.private.estimators import fitting
from edgeveil.trainer.private.estimators.choice import candidates, drawn, parts
from edgeveil.trainer.private.estimators.linear_model import LinearClassifier, decided, shares
from edgeveil.trainer.private.estimators.losses import Huber, Logistic, Loss
from edgeveil.trainer.private.estimators.minimiser import CLOSE, minimum
from edgeveil.trainer.private.noise import Noise

Method = Literal["objective", "output"]


def perturbation(epsilon: float, rows: int, regularization: float, curvature: float) -> tuple[float, float]:
    """(scale of the noise b, further regularisation) of algorithm 2: |b| ~ Gamma(d, scale)."""
    ratio = curvature / (rows * regularization)
    left = epsilon - math.log1p(2 * ratio + ratio**2)
    if left > 0:
        return 2 / left, 0.0
    return 4 / epsilon, curvature / (rows * math.expm1(epsilon / 4)) - regularization


class _PerturbedRisk(LinearClassifier):
    """A linear classifier at the minimum of a regularised risk."""

    epsilon: float
    data_norm: float | None
    regularization: float
    choose: Sequence[float] | None
    method: Method
    fit_intercept: bool
    classes: Any
    random_state: Any

    def fit(self, X: Any, y: Any) -> _PerturbedRisk:
        """Rows X (n, d) and classes y (n,). Raises ``ValueError`` (a ``BadInput``) for settings that mean nothing.

        Sets ``coef_``, ``intercept_``, ``classes_``, ``epsilon_``, ``private_``, ``guarantee_`` (None where nothing is
        promised), ``regularization_`` (as given, or as chosen), ``gradient_`` (what the solver left) and
        ``shortened_``, how many rows lay beyond the norm.
        """
        fitting.check_epsilon(self.epsilon)
        if not self.regularization > 0:
            raise fitting.Unbounded(f"Expected a regularization above 0; got {self.regularization}.")
        if self.method not in ("objective", "output"):
            raise fitting.Unbounded(f'Expected the method "objective" or "output"; got {self.method!r}.')
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, given = fitting.public_classes(y, self.classes)
        tried = [self.regularization] if self.choose is None else candidates(self.choose)
        fitting.warn_of_few(len(X) if self.choose is None else len(X) // (len(tried) + 1))
        rows, self.shortened_ = fitting.within_norm(X, self.data_norm, self.fit_intercept)
        noise = fitting.noise_of(self.random_state)
        if self.choose is None:
            at, fitted = 0, [self._weights(rows, y, self.regularization, noise)]
        else:
            *learn, judge = parts(len(rows), len(tried), noise)
            each = zip(learn, tried, strict=True)
            fitted = [self._weights(rows[part], y[part], one, noise) for part, one in each]
            right = [decided(self.classes_, rows[judge] @ weights.T) == y[judge] for weights, _ in fitted]
            at = drawn([int((~one).sum()) for one in right], self.epsilon, noise)
        weights, self.regularization_ = fitted[at][0], tried[at]
        self.gradient_ = max(left for _, left in fitted)
        self.coef_, self.intercept_ = fitting.unscaled(weights, float(self.data_norm or 1), self.fit_intercept)
        self.epsilon_ = self.epsilon
        self.private_ = noise.private and self.gradient_ <= CLOSE
        self.guarantee_ = self._guarantee(given) if self.private_ else None
        if self.gradient_ > CLOSE:
            warnings.warn(
                f"The solver stopped at a gradient of {self.gradient_:.1e}, above {CLOSE:g}: nothing is promised. Use "
                "more regularization.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _weights(
        self, rows: np.ndarray, y: np.ndarray, regularization: float, noise: Noise
    ) -> tuple[np.ndarray, float]:
        """Weights of all problems (k, d), and the largest gradient that is left."""
        problems = fitting.signs(y, self.classes_)
        share = self.epsilon / len(problems)
        solved = [self._solve(rows * sign[:, None], regularization, share, noise) for sign in problems]
        return np.stack([w for w, _ in solved]), max(left for _, left in solved)

    def _solve(self, rows: np.ndarray, regularization: float, epsilon: float, noise: Noise) -> tuple[np.ndarray, float]:
        """Weights of one problem, and the gradient that is left."""
        (n, d), loss = rows.shape, self._loss()
        if self.method == "output":
            w, left = minimum(rows, loss, regularization, np.zeros(d))
            return w + noise.radial(d, 2 / (n * regularization * epsilon)), left
        scale, more = perturbation(epsilon, n, regularization, loss.curvature)
        return minimum(rows, loss, regularization + more, noise.radial(d, scale) / n)

    def _guarantee(self, classes: str) -> Any:
        given = [
            f"rows shortened to the public norm {self.data_norm:g}",
            classes,
            "a regularization that was not chosen on these data"
            if self.choose is None
            else "a regularization that was drawn from public ones, on rows of its own",
            f"a solver that ends within {CLOSE:g} of the minimum",
        ]
        return fitting.guarantee(self.epsilon, given=given)


class PrivateLogisticRegression(_PerturbedRisk):
    """Logistic regression with ``epsilon``-differential privacy for each row.

    ``data_norm``: a public bound on the Euclidean norm of a row; longer ones are shortened. ``regularization``: the
    weight of |w|^2 / 2 next to the mean loss; ``choose``: public ones, of which the fit draws one that does well,
    each on a part of the rows. ``method``: "objective" or "output". ``random_state``: None for secret noise; a seed
    makes fits alike, and then nothing is promised.

    >>> PrivateLogisticRegression(1.0, data_norm=1.0, regularization=1e-3).fit(X, y).guarantee_  # doctest: +SKIP
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        data_norm: float | None = None,
        regularization: float = 1e-3,
        choose: Sequence[float] | None = None,
        method: Method = "objective",
        fit_intercept: bool = True,
        classes: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.data_norm = data_norm
        self.regularization = regularization
        self.choose = choose
        self.method = method
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.random_state = random_state

    def _loss(self) -> Loss:
        return Logistic()

    def predict_proba(self, X: Any) -> np.ndarray:
        """P(class | row), (n, classes); of more than two classes one against the rest, made to sum to 1."""
        return shares(expit(self.decision_function(X)))


class PrivateHuberSVM(_PerturbedRisk):
    """A support vector machine on the Huber loss of half-width ``h``, private as ``PrivateLogisticRegression`` is."""

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        data_norm: float | None = None,
        regularization: float = 1e-3,
        h: float = 0.5,
        choose: Sequence[float] | None = None,
        method: Method = "objective",
        fit_intercept: bool = True,
        classes: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.data_norm = data_norm
        self.regularization = regularization
        self.h = h
        self.choose = choose
        self.method = method
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.random_state = random_state

    def _loss(self) -> Loss:
        if not 0 < self.h <= 1:
            raise fitting.Unbounded(f"Expected h above 0 and up to 1; got {self.h}.")
        return Huber(self.h)
