"""The lasso, private by a perturbed objective: squared error, an l1 term, and a random linear term.

D. Kifer, A. Smith and A. Thakurta, "Private Convex Empirical Risk Minimization and High-dimensional Regression", COLT
2012, algorithm 1 with theorem 2. The minimum over |w| <= R (Euclidean) of

    sum of 1/2 (x.w - y)^2 + n l1 |w|_1 + ridge/2 |w|^2 + b.w,    b of density proportional to exp(-|b| / scale),

for rows |x| <= 1 and values |y| <= 1. What the theorem asks for holds within the ball: a convex loss of bounded
gradient (x.w - y) x, whose Hessian x x^T has rank 1 and an eigenvalue of at most 1; any convex regulariser, as the l1
term is; and a quadratic term. Theirs are neighbours of one row more. With one row replaced the map from w to b moves by
at most ``most_moved``, and its Jacobian by a factor of at most 1 + 1 / ridge: all other rows stay, and one term of rank
1 takes another's place. So

    most_moved(R) / scale + ln(1 + 1 / ridge)

is spent where the regulariser is smooth and keeps w inside the ball. The l1 term is the limit of smooth convex ones,
and the ball of barriers in it, whose minima converge for every b: their theorem 1.

This holds of the exact minimum. What a solver returns is within ``CLOSE`` of it, by a subgradient and the strong
convexity; noise that hides as much is added to it (approximate minima perturbation: R. Iyengar and others, "Towards
Practical Differentially Private Convex Optimization", 2019) and paid for with the share ``CLOSING`` of epsilon. What is
smaller than that noise is then set to 0, as the minimum would have it: that sees noisy weights alone.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from edgeveil.trainer.ext.private.estimators import fitting
from edgeveil.trainer.ext.private.estimators.fitting import Noisy, predicted
from edgeveil.trainer.ext.private.noise import noise_of

CLOSE = 1e-8  # of weights, to those of the minimum
CLOSING = 0.01  # share of epsilon for that distance
BENDING = 0.25  # share of epsilon that the Jacobian may take; more ridge leaves less than that to it
CUT = 8.0  # lengths of the closing noise below which a weight is 0
MOST_STEPS = 200_000
MOST = 1e6  # of a setting


def most_moved(radius: float) -> float:
    """The largest distance of two gradients (x.w - y) x, |x| <= 1 and |y| <= 1, of one w of |w| <= ``radius``.

    They lie in the solid that the limacon r = 1 + |w| cos(angle to w) makes around w, whose diameter is the widest
    chord across w, and grows with |w|. (2 (radius + 1), twice the longest gradient, is up to twice as much.)
    """
    cosine = (math.sqrt(1 + 8 * radius**2) - 1) / (4 * radius)
    return 2 * (1 + radius * cosine) * math.sqrt(1 - cosine**2)


def perturbation(epsilon: float, radius: float, least_ridge: float) -> tuple[float, float]:
    """(scale of the noise b, ridge) that spend ``epsilon`` at the exact minimum; ``least_ridge``: no less of it."""
    ridge = max(least_ridge, 1 / math.expm1(BENDING * epsilon))
    return most_moved(radius) / (epsilon - math.log1p(1 / ridge)), ridge


def minimum(
    matrix: np.ndarray, linear: np.ndarray, l1: np.ndarray, radius: float, ridge: float
) -> tuple[np.ndarray, float]:
    """The w (d,) of |w| <= ``radius`` with the least w.Hw / 2 + linear.w + sum l1 |w|, H = ``matrix`` + ridge I, and a
    bound on its distance from the exact one.

    Accelerated proximal steps (Beck and Teboulle 2009): each cuts by ``l1`` (d,), then shortens to the ball. A step
    leaves a subgradient, whose length over ``ridge`` bounds the distance.
    """
    curved = matrix + ridge * np.eye(len(linear))
    steep = float(np.linalg.eigvalsh(curved)[-1])
    root = math.sqrt(ridge / steep)
    momentum = (1 - root) / (1 + root)
    w = start = np.zeros(len(linear))
    away = math.inf
    for _ in range(MOST_STEPS):
        bare = start - (curved @ start + linear) / steep
        after = np.sign(bare) * np.maximum(np.abs(bare) - l1 / steep, 0)
        after *= radius / max(float(np.linalg.norm(after)), radius)
        step = start - after
        away = float(np.linalg.norm(steep * step - curved @ step)) / ridge
        # Momentum that points uphill is dropped (O'Donoghue and Candes 2015).
        kept = momentum if step @ (after - w) <= 0 else 0.0
        w, start = after, after + kept * (after - w)
        if away <= CLOSE:
            break
    return w, away


@dataclass(eq=False, repr=False)  # scikit-learn reads the settings from the signature of __init__
class PrivateLasso(Noisy, RegressorMixin, BaseEstimator):
    """Linear regression with an l1 term, ``epsilon``-private for each row.

    ``data_norm``: a public bound on the Euclidean norm of a row; longer ones are shortened. ``target_bounds``: public
    (low, high) of y. ``l1``: the weight of |w|_1 next to the mean of half the squared error, and ``radius`` the
    largest |w|, both of rows and values in units of those bounds; the intercept has no l1 term. ``ridge``: the least
    weight of |w|^2 / 2 next to that mean; privacy may ask for more (``ridge_``). ``random_state``: None for secret
    noise; a seed makes fits alike, and then nothing is promised.

    >>> PrivateLasso(1.0, data_norm=1.0, target_bounds=(0, 10), l1=1e-3).fit(X, y).guarantee_  # doctest: +SKIP
    """

    epsilon: float = 1.0
    _: KW_ONLY
    data_norm: float | None = None
    target_bounds: tuple[float, float] | None = None
    l1: float = 1e-3
    ridge: float = 1e-5
    radius: float = 2.0
    fit_intercept: bool = True
    random_state: Any = None

    def fit(self, X: Any, y: Any) -> PrivateLasso:
        """Rows X (n, d) and values y (n,). Raises ``ValueError`` (a ``BadInput``) for settings that mean nothing.

        Sets ``coef_``, ``intercept_``, ``epsilon_``, ``private_``, ``guarantee_`` (None where nothing is promised),
        ``ridge_``, ``distance_`` (a bound on that from the exact minimum) and ``shortened_``, how many rows lay beyond
        the norm.
        """
        fitting.check_epsilon(self.epsilon)
        for name, value in (("l1", self.l1), ("ridge", self.ridge)):
            if not 0 <= value <= MOST:
                raise fitting.Unbounded(f"Expected {name} of 0 to {MOST:g}; got {value}.")
        if not 1 / MOST <= self.radius <= MOST:
            raise fitting.Unbounded(f"Expected a radius of {1 / MOST:g} to {MOST:g}; got {self.radius}.")
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        low, high = fitting.public_bounds(self.target_bounds, 1, "target_bounds")
        fitting.warn_of_few(len(X))
        rows, self.shortened_ = fitting.within_norm(X, self.data_norm, self.fit_intercept)
        middle, half = float(high[0] + low[0]) / 2, float(high[0] - low[0]) / 2
        values = np.clip((y - middle) / half, -1, 1)
        noise, (n, d) = noise_of(self.random_state), rows.shape
        scale, self.ridge_ = perturbation((1 - CLOSING) * self.epsilon, self.radius, n * self.ridge)
        cut = np.full(d, n * self.l1)
        if self.fit_intercept:
            cut[-1] = 0.0
        w, self.distance_ = minimum(
            rows.T @ rows, noise.radial(d, scale) - rows.T @ values, cut, self.radius, self.ridge_
        )
        closing = 2 * CLOSE / (CLOSING * self.epsilon)
        w = w + noise.radial(d, closing)
        w[(np.abs(w) <= CUT * d * closing) & (cut > 0)] = 0.0
        coefficients, constant = fitting.unscaled(half * w[None, :], float(self.data_norm or 1), self.fit_intercept)
        self.coef_, self.intercept_ = coefficients, constant + middle
        self.epsilon_ = self.epsilon
        self.private_ = noise.private and self.distance_ <= CLOSE
        given = [
            f"rows shortened to the public norm {self.data_norm:g}",
            "values of y clipped to their public bounds",
            "an l1 weight, a ridge and a radius that were not chosen on these data",
        ]
        self.guarantee_ = fitting.guarantee(self.epsilon, given=given) if self.private_ else None
        if not self.distance_ <= CLOSE:
            warnings.warn(
                f"The solver stopped within {self.distance_:.1e} of the minimum, above {CLOSE:g}: nothing is promised. "
                "Use more ridge.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The value of each row (n,)."""
        return predicted(self, X)
