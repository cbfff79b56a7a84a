"""LEACE, the baseline for cleaning against linear adversaries: least-squares concept erasure in closed form.

Belrose, Schneider-Joseph, Ravfogel, Cotterell, Raff, Biderman: LEACE: Perfect linear concept erasure in closed form
(2023), theorem 4.3. It uses the confidential labels, not the predictor: the least change of x after which no linear
model predicts them better than their mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
