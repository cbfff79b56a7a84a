"""The nearest distribution to an unbiased histogram, which noise may leave below 0 or with another sum than 1."""

from __future__ import annotations

import numpy as np

METHOD = "euclidean-simplex"


def project(shares: np.ndarray) -> np.ndarray:
    """The point of the simplex nearest to ``shares`` (k,) in l2 (Duchi, Shalev-Shwartz, Singer, Chandra 2008)."""
    falling = np.sort(shares)[::-1]
    excess = np.cumsum(falling) - 1.0
    kept = np.flatnonzero(falling * np.arange(1, len(shares) + 1) > excess)[-1]
    return np.maximum(shares - excess[kept] / (kept + 1), 0.0)
