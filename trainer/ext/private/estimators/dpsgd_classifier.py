"""Logistic regression trained by DP-SGD, for many epochs' worth of steps where a linear model is enough."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from edgeveil.trainer.ext.private import noise as dpsgd
from edgeveil.trainer.ext.private.cover import Guarantee
from edgeveil.trainer.ext.private.estimators import fitting
from edgeveil.trainer.ext.private.estimators.fitting import LinearClassifier, shares


@dataclass(eq=False, repr=False)  # scikit-learn reads the settings from the signature of __init__
class DPSGDClassifier(LinearClassifier):
    """A linear classifier with (``epsilon``, ``delta``)-differential privacy for each row, by noisy gradient steps.

    ``data_norm``: a public bound on the Euclidean norm of a row; longer ones are shortened. ``delta``: None for a tenth
    of one row's share. ``lot``: rows of a step on average, None for the square root of all, at least 64. ``clip``: the
    norm of one row's gradient. ``average``: the mean of the second half of the steps instead of the last.
    ``random_state``: None for secret noise; a seed makes fits alike, and then nothing is promised.
    """

    epsilon: float = 1.0
    _: KW_ONLY
    delta: float | None = None
    data_norm: float | None = None
    clip: float = 0.5
    rate: float = 4.0
    lot: int | None = None
    steps: int = 300
    average: bool = True
    fit_intercept: bool = True
    classes: Any = None
    random_state: Any = None

    def fit(self, X: Any, y: Any) -> DPSGDClassifier:
        """Rows X (n, d) and classes y (n,). Raises ``ValueError`` (``BadInput``) for settings that mean nothing.

        Sets ``coef_``, ``intercept_``, ``classes_``, ``epsilon_``, ``private_``, ``guarantee_`` (None where nothing is
        promised), ``plan_`` and ``shortened_``, how many rows lay beyond the norm.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        fitting.check_epsilon(self.epsilon)
        self.classes_, given = fitting.public_classes(y, self.classes)
        rows, self.shortened_ = fitting.within_norm(X, self.data_norm, self.fit_intercept)
        fitting.warn_of_few(len(rows))
        units = len(rows)
        lot = min(units, max(64, round(units**0.5))) if self.lot is None else self.lot
        delta = 0.1 / units if self.delta is None else self.delta
        with fitting.as_value_error():
            self.plan_ = dpsgd.plan(units, epsilon=self.epsilon, delta=delta, lot=lot, steps=self.steps, clip=self.clip)
        noise = dpsgd.noise_of(self.random_state)
        hot = (y[:, None] == self.classes_[None, :]).astype(np.float64)
        weights = np.zeros((len(self.classes_), rows.shape[1]))
        iterates = []
        for chosen in dpsgd.lots(self.plan_, noise):
            total = dpsgd.clipped_sum(rows[chosen], hot[chosen], weights, self.clip)
            (mean,) = dpsgd.noisy_mean([total], self.plan_, noise)
            weights = weights - self.rate * mean
            iterates.append(weights)
        weights = np.mean(iterates[len(iterates) // 2 :], axis=0) if self.average else weights
        if len(self.classes_) == 2:
            weights = weights[1:] - weights[:1]
        self.coef_, self.intercept_ = fitting.unscaled(weights, float(self.data_norm or 1), self.fit_intercept)
        self.epsilon_, self.private_ = self.plan_.claim.epsilon, noise.private
        rests_on = [f"rows shortened to the public norm {self.data_norm:g}", given, "a public number of rows"]
        spent = Guarantee(self.epsilon_, delta, "row", "add or remove", "the fitted coefficients", rests_on)
        self.guarantee_ = spent if self.private_ else None
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """P(class | row), (n, classes)."""
        scores = self.decision_function(X)
        return shares(1 / (1 + np.exp(-scores))) if scores.ndim == 1 else softmax(scores, axis=1)
