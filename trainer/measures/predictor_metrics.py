"""The metrics of linear cleaners as paper 000 defines them, and others that show what those miss.

``e_utility`` and e_privacy compare predictions on cleaned vectors with predictions on raw ones; *complete privacy*
(CP) is the share of (vector, confidential label) pairs that are predicted worse than by always guessing the label's
mean. CP has no zero: a predictor that overfits is worse than the mean on raw data too. So ``mean_auc`` measures how
well each label can still be ranked, and a nonlinear refit what a linear one misses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


def e_utility(a_d: np.ndarray, x: np.ndarray, cleaned: np.ndarray) -> np.ndarray:
    """|A_d^T (x - x~)|^2 per vector (n,), summed over the predictor's outputs, computed in float64."""
    moved = (x.astype(np.float64) - cleaned.astype(np.float64)) @ a_d
    return np.sum(moved**2, axis=1)


def promised(a_d: np.ndarray, x: np.ndarray, eps: float) -> np.ndarray:
    """The ``e_utility`` that a cleaner guarantees for each vector: min(eps, |A_d^T x|^2), shape (n,)."""
    return np.minimum(eps, np.sum((x.astype(np.float64) @ a_d) ** 2, axis=1))


class LinearRefit:
    """The paper's attack: ordinary least squares with an intercept, from cleaned training vectors to labels."""

    def __init__(self, x: np.ndarray, labels: np.ndarray) -> None:
        """Fit on x (n, features) and labels (n, labels). Cleaned vectors span few directions: least norm decides."""
        self._mean, self._at_mean = x.mean(axis=0), labels.mean(axis=0)
        self._weights = np.linalg.lstsq(x - self._mean, labels - self._at_mean, rcond=None)[0]

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Labels (n, labels) of x (n, features)."""
        return (x - self._mean) @ self._weights + self._at_mean


class BoostedRefit:
    """A nonlinear refit: gradient-boosted trees, one model per label, for labels made binary."""

    def __init__(self, x: np.ndarray, positive: np.ndarray, *, seed: int, rounds: int = 60) -> None:
        """Fit on x (n, features) and positive (n, labels), boolean with both values in every column."""
        self._models = [boosted_trees(x, column, max_iter=rounds, random_state=seed) for column in positive.T]

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Probability (n, labels) that each label is positive."""
        return np.stack([model.predict_proba(x)[:, 1] for model in self._models], axis=1)


def boosted_trees(x: np.ndarray, labels: np.ndarray, **settings: Any) -> Any:
    """scikit-learn's gradient-boosted trees fitted on x (n, features); on little data several threads are slower."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="openmp"):
        return HistGradientBoostingClassifier(**settings).fit(x, labels)


def binary(labels: np.ndarray, training: np.ndarray) -> np.ndarray:
    """Labels (n, labels) as booleans: above the median of the ``training`` labels, or, where nothing is, not below it.

    Two-valued labels stay the same; abundance codes mostly become "found at all".
    """
    median = np.median(training, axis=0)
    above = (training > median).any(axis=0)
    return np.where(above, labels > median, labels >= median)


def mean_auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Area under the ROC curve, mean over the labels (columns) with both values; 0.5: no leak, NaN: no such label."""
    from sklearn.metrics import roc_auc_score

    areas = [roc_auc_score(p, s) for s, p in zip(scores.T, positive.T, strict=True) if 0 < p.sum() < len(p)]
    return float(np.mean(areas)) if areas else float("nan")


# LEACE, the baseline for cleaning against linear adversaries: least-squares concept erasure in closed form.
#
# Belrose, Schneider-Joseph, Ravfogel, Cotterell, Raff, Biderman: LEACE: Perfect linear concept erasure in closed form
# (2023), theorem 4.3. It uses the confidential labels, not the predictor: the least change of x after which no linear
# model predicts them better than their mean.

RANK_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Leace:
    """x' = x - L R (x - mean): ``left`` (features, r), ``right`` (r, features), ``mean`` (features,)."""

    left: np.ndarray
    right: np.ndarray
    mean: np.ndarray

    def clean(self, x: np.ndarray) -> np.ndarray:
        """x' (n, features) of x (n, features)."""
        return x - ((x - self.mean) @ self.right.T) @ self.left.T


def fit(x: np.ndarray, labels: np.ndarray) -> Leace:
    """The eraser of ``labels`` (n, labels) from x (n, features), both numeric.

    With W = (Sigma_xx^{1/2})^+ and P the orthogonal projection onto the columns of W Sigma_xz, it removes W^+ P W.
    """
    mean = x.mean(axis=0)
    centred = x - mean
    cross = centred.T @ (labels - labels.mean(axis=0)) / len(x)
    power, axes = np.linalg.eigh(centred.T @ centred / len(x))
    keep = power > RANK_TOLERANCE * power[-1]
    axes, spread = axes[:, keep], np.sqrt(power[keep])
    u, s, _ = np.linalg.svd((axes.T @ cross) / spread[:, None], full_matrices=False)
    u = u[:, s > RANK_TOLERANCE * s[0]] if s[0] > 0 else u[:, :0]
    return Leace(left=(axes * spread) @ u, right=u.T @ (axes / spread).T, mean=mean)
