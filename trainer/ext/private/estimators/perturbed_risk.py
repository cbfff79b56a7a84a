"""Logistic regression and a Huber support vector machine, private by a perturbed objective or output.

Chaudhuri, Monteleoni and Sarwate, "Differentially Private Empirical Risk Minimization", JMLR 2011: algorithm 2
(objective), algorithm 1 (output) and algorithm 3 (the choice of a setting). The form on the slides of paper 003 leaves
out the correction of epsilon and the factor 2, and is not epsilon-private. Neighbours differ in one row, replaced.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from edgeveil.trainer.ext.private.estimators import fitting
from edgeveil.trainer.ext.private.estimators.fitting import LinearClassifier, Unbounded, decided, shares
from edgeveil.trainer.ext.private.noise import Noise, noise_of


def candidates(choose: Any) -> list[float]:
    """The settings to try. Raises ``Unbounded`` unless they are two or more different numbers above 0."""
    tried = [float(one) for one in choose] if isinstance(choose, Sequence | np.ndarray) else []
    if len(set(tried)) < 2 or len(set(tried)) < len(tried) or not all(0 < one < math.inf for one in tried):
        raise Unbounded(f"Expected two or more different numbers above 0 to choose from; got {choose!r}.")
    return tried


def parts(rows: int, tried: int, noise: Noise) -> list[np.ndarray]:
    """The numbers of all rows, drawn into one part for each of the ``tried`` settings and one more that judges."""
    if rows <= tried:
        raise Unbounded(f"Expected more rows than the {tried} settings to choose from; got {rows}.")
    return np.array_split(np.argsort(noise.uniform((rows,))), tried + 1)


def drawn(mistakes: Sequence[int], epsilon: float, noise: Noise) -> int:
    """The place of one of the numbers of ``mistakes``, with a chance proportional to exp(-epsilon / 2 mistakes)."""
    exponent = -epsilon / 2 * (np.asarray(mistakes, np.float64) - min(mistakes))
    upto = np.cumsum(np.exp(exponent))
    return int(np.searchsorted(upto, noise.uniform((1,))[0] * upto[-1]))


# Convex losses of a margin with bounded slope and curvature, as private risk minimisation needs them.
#
# Each has |l'| <= 1 and |l''| <= ``curvature`` (Chaudhuri, Monteleoni and Sarwate 2011, sections 3.4), and gives l, l'
# and l'' of margins (n,).


class Logistic:
    """log(1 + exp(-m))."""

    curvature = 0.25

    def value(self, margin: np.ndarray) -> np.ndarray:
        """l."""
        return np.logaddexp(0, -margin)

    def slope(self, margin: np.ndarray) -> np.ndarray:
        """l'."""
        return -expit(-margin)

    def bend(self, margin: np.ndarray) -> np.ndarray:
        """l''."""
        return expit(margin) * expit(-margin)


@dataclass(frozen=True)
class Huber:
    """The hinge loss with a parabola of half-width ``h`` at its corner (their eq. 7)."""

    h: float

    @property
    def curvature(self) -> float:
        """1 / 2h."""
        return 1 / (2 * self.h)

    def value(self, margin: np.ndarray) -> np.ndarray:
        """l."""
        rest = 1 - margin
        return np.where(rest > self.h, rest, np.where(rest < -self.h, 0.0, (rest + self.h) ** 2 / (4 * self.h)))

    def slope(self, margin: np.ndarray) -> np.ndarray:
        """l'."""
        return -np.clip((1 - margin + self.h) / (2 * self.h), 0, 1)

    def bend(self, margin: np.ndarray) -> np.ndarray:
        """l'', one of its two values at the ends of the parabola."""
        return (np.abs(1 - margin) <= self.h) / (2 * self.h)


Loss = Logistic | Huber


# The minimum of a regularised risk with a random linear term, to a gradient of nearly nothing.
#
# Objective perturbation is private at the exact minimum, so what remains of the gradient is reported.


CLOSE = 1e-9  # norm of the gradient
NEAR = 1e-6  # of a gradient, too
MOST_STEPS = 200


def minimum(
    rows: np.ndarray, loss: Loss, regularization: float, linear: np.ndarray, *, start: np.ndarray | None = None
) -> tuple[np.ndarray, float]:
    """The w (d,) with the least mean l(rows w) + regularization/2 |w|^2 + linear w, and the norm of its gradient.

    ``rows`` (n, d) are multiplied by their labels -1 or 1. Newton's method from ``start`` (None: 0); a step is halved
    while it does not lower the objective, or near the end the gradient.
    """
    n, d = rows.shape

    def at(w: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The objective, its gradient, and the margins."""
        margin = rows @ w
        value = float(loss.value(margin).mean() + regularization / 2 * w @ w + linear @ w)
        return value, rows.T @ loss.slope(margin) / n + regularization * w + linear, margin

    w = np.zeros(d) if start is None else start
    value, slope, margin = at(w)
    for _ in range(MOST_STEPS):
        if np.linalg.norm(slope) <= CLOSE:
            break
        step = np.linalg.solve(_curved(rows, loss.bend(margin)) / n + regularization * np.eye(d), slope)
        size = 1.0
        while size > 1e-10:
            after = w - size * step
            new_value, new_slope, margin = at(after)
            # Close to the minimum the objective's own rounding hides what a step gains.
            near = np.linalg.norm(slope) < NEAR and np.linalg.norm(new_slope) < np.linalg.norm(slope)
            if near or new_value <= value - 1e-4 * size * slope @ step:
                break
            size /= 2
        else:
            break
        w, value, slope = after, new_value, new_slope
    return w, float(np.linalg.norm(slope))


def _curved(rows: np.ndarray, bend: np.ndarray) -> np.ndarray:
    """The sum of ``bend`` (n,) times x x^T over rows x: (d, d). Many losses are straight for most rows."""
    curved = bend > 0
    if not curved.all():
        rows, bend = rows[curved], bend[curved]
    scaled = rows * np.sqrt(bend)[:, None]
    return np.asarray(scaled.T @ scaled)


Method = Literal["objective", "output"]


def perturbation(epsilon: float, rows: int, regularization: float, curvature: float) -> tuple[float, float]:
    """(scale of the noise b, further regularisation) of algorithm 2: |b| ~ Gamma(d, scale)."""
    ratio = curvature / (rows * regularization)
    left = epsilon - math.log1p(2 * ratio + ratio**2)
    if left > 0:
        return 2 / left, 0.0
    return 4 / epsilon, curvature / (rows * math.expm1(epsilon / 4)) - regularization


@dataclass(eq=False, repr=False)  # scikit-learn reads the settings from the signature of __init__
class _PerturbedRisk(LinearClassifier):
    """A linear classifier at the minimum of a regularised risk."""

    epsilon: float = 1.0
    _: KW_ONLY
    data_norm: float | None = None
    regularization: float = 1e-3
    choose: Sequence[float] | None = None
    method: Method = "objective"
    fit_intercept: bool = True
    classes: Any = None
    random_state: Any = None

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
        noise = noise_of(self.random_state)
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

    def _loss(self) -> Loss:
        return Logistic()

    def predict_proba(self, X: Any) -> np.ndarray:
        """P(class | row), (n, classes); of more than two classes one against the rest, made to sum to 1."""
        return shares(expit(self.decision_function(X)))


@dataclass(eq=False, repr=False)
class PrivateHuberSVM(_PerturbedRisk):
    """A support vector machine on the Huber loss of half-width ``h``, private as ``PrivateLogisticRegression`` is."""

    _: KW_ONLY
    h: float = 0.5

    def _loss(self) -> Loss:
        if not 0 < self.h <= 1:
            raise fitting.Unbounded(f"Expected h above 0 and up to 1; got {self.h}.")
        return Huber(self.h)
