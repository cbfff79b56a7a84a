"""Linear models as scikit-learn asks for them: ``coef_`` (k, d), ``intercept_`` (k,), and what is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data


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
