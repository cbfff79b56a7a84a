"""What the private estimators share: checked settings, bounded rows, one problem for each class, the guarantee."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.ext.private.cover import Guarantee

MOST_EPSILON = 50.0
ROUNDING = 1e-12  # of a norm
FEW = 100  # rows; with fewer the noise drowns what is learned


class Unbounded(BadInput, ValueError):
    """A setting that means nothing, or that a private fit lacks; callers of scikit-learn see a ValueError."""


@contextmanager
def as_value_error() -> Iterator[None]:
    """What private training refuses, as scikit-learn's callers expect it."""
    try:
        yield
    except BadInput as error:
        raise Unbounded(str(error)) from None


def check_epsilon(epsilon: float) -> None:
    """Raise ``Unbounded`` unless it is above 0 and up to 50."""
    if not (isinstance(epsilon, int | float | np.number) and 0 < epsilon <= MOST_EPSILON):
        raise Unbounded(f"Expected an epsilon above 0 and up to {MOST_EPSILON:g}; got {epsilon}.")


def warn_of_few(rows: int) -> None:
    """A warning where the noise will drown what is learned."""
    if rows < FEW:
        warnings.warn(
            f"{counted(rows, 'row is', 'rows are')} few: below {FEW} the noise drowns what is learned.", stacklevel=4
        )


def within_norm(x: np.ndarray, data_norm: float | None, fit_intercept: bool) -> tuple[np.ndarray, int]:
    """Rows (n, d) scaled to a Euclidean norm of at most 1, those beyond ``data_norm`` shortened, and how many were.

    With an intercept a constant feature is appended, inside the norm. Raises ``Unbounded`` without a bound: one from
    the data would leak.
    """
    if data_norm is None or not (data_norm > 0 and math.isfinite(data_norm)):
        raise Unbounded(
            f"Expected data_norm, a public bound on the Euclidean norm of a row; got {data_norm}. A bound taken "
            "from the data tells about them."
        )
    rows = x / data_norm
    norms = np.linalg.norm(rows, axis=1)
    # Rounding may leave a norm a little above 1, and nothing may be beyond it.
    rows *= ((1 - ROUNDING) / np.maximum(norms, 1))[:, None]
    beyond = norms > 1 + ROUNDING
    if fit_intercept:
        rows = np.hstack([rows, np.ones((len(rows), 1))]) / math.sqrt(2)
    return rows, int(beyond.sum())


def public_bounds(bounds: Any, features: int, name: str = "bounds") -> tuple[np.ndarray, np.ndarray]:
    """(low, high) of each feature (d,). Raises ``Unbounded`` without them: a range from the data would leak."""
    if bounds is None:
        raise Unbounded(
            f"Expected {name}, the public (low, high) of every value; got None. A range that is taken from the data "
            "tells about them."
        )
    low, high = (np.broadcast_to(np.asarray(end, np.float64), (features,)) for end in bounds)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise Unbounded(f"Expected {name} of finite numbers, low below high; got {bounds}.")
    return low, high


def unscaled(weights: np.ndarray, data_norm: float, fit_intercept: bool) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (k, d) and intercepts (k,) for rows as they come, of weights (k, d or d + 1) on bounded ones."""
    if not fit_intercept:
        return weights / data_norm, np.zeros(len(weights))
    weights = weights / math.sqrt(2)
    return weights[:, :-1] / data_norm, weights[:, -1]


def signs(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """-1 or 1 for each problem (k, n): of two classes one problem, of more one against the rest for each."""
    positive = classes[1:] if len(classes) == 2 else classes
    return np.where(y[None, :] == positive[:, None], 1.0, -1.0)


def public_classes(y: np.ndarray, classes: Sequence[Any] | None) -> tuple[np.ndarray, str]:
    """The classes, sorted, and what the guarantee rests on about them. Raises ``Unbounded`` where there is one only."""
    public = np.unique(y) if classes is None else np.unique(np.asarray(classes))
    if not np.isin(np.unique(y), public).all():
        raise Unbounded(f"y holds classes that are not in `classes`, {list(public)}.")
    if len(public) < 2:
        raise Unbounded(f"Expected two classes or more; the data hold 1 class: {public[0]!r}.")
    return public, "classes that are public" + ("" if classes is not None else " (they were read from y)")


def guarantee(epsilon: float, *, given: Sequence[str], outside: Sequence[str] = ()) -> Guarantee:
    """That of a fitted linear model, between data that differ in one row."""
    return Guarantee(epsilon, 0.0, "row", "replace", "the fitted coefficients", given, outside)


# Linear models as scikit-learn asks for them: ``coef_`` (k, d), ``intercept_`` (k,), and what is made of them.


def _scores(model: Any, X: Any) -> np.ndarray:
    check_is_fitted(model, "coef_")
    X = validate_data(model, X, dtype=np.float64, reset=False)
    return X @ model.coef_.T + model.intercept_


class Noisy:
    """Before scikit-learn's mixins: an estimator whose fit is random, unless ``random_state`` says otherwise."""

    random_state: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of the mixins
        tags.non_deterministic = self.random_state is None
        if tags.classifier_tags is not None:
            tags.classifier_tags.poor_score = True
        if tags.regressor_tags is not None:
            tags.regressor_tags.poor_score = True
        return tags


class LinearClassifier(Noisy, ClassifierMixin, BaseEstimator):
    """Decides by linear scores: one for two classes, else one for each."""

    classes_: np.ndarray

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of rows X (n, d): (n,) for two classes, else (n, classes)."""
        scores = _scores(self, X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row (n,)."""
        scores = _scores(self, X)  # first: says where the model is not fitted
        return decided(self.classes_, scores)


def decided(classes: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The class of each row, of scores (n, 1) of the second of two classes, or (n, classes)."""
    return np.asarray(classes[(scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)])


def shares(chances: np.ndarray) -> np.ndarray:
    """P(class | row) (n, classes), of the chance of the second class (n,) or of one against the rest (n, classes)."""
    if chances.ndim == 1:
        return np.stack([1 - chances, chances], axis=1)
    return chances / np.maximum(chances.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)


def predicted(model: Any, X: Any) -> np.ndarray:
    """The value of each row (n,), for a regression of one value."""
    return _scores(model, X)[:, 0]
