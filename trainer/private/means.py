"""Mean pictures of classes by the Gaussian mechanism, on sums and counts to which each unit adds a bounded share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgeveil.trainer.private.noise import Noise

COUNT = 0.5  # weight of the counts beside the sums: pictures need their sums more


def noisy_means(
    u: np.ndarray, labels: np.ndarray, classes: int, rows: Sequence[np.ndarray], *, sigma: float, noise: Noise
) -> np.ndarray:
    """The means (classes, *shape) of samples u (n, *shape) in the unit cube, float32 within the cube.

    ``rows`` are the row numbers of each unit. ``sigma`` is the deviation of the noise on ``bounded_sums``.
    """
    sums = bounded_sums(u, labels, classes, rows)
    noised = (sums + noise.gaussian(sums.shape, sigma)) * np.hypot(1, COUNT)
    counts = np.maximum(noised[:, -1:] / COUNT, 1)
    means = 0.5 + noised[:, :-1] * _reach(u) / counts
    return np.clip(means, 0, 1).astype(np.float32).reshape(classes, *u.shape[1:])


def bounded_sums(u: np.ndarray, labels: np.ndarray, classes: int, rows: Sequence[np.ndarray]) -> np.ndarray:
    """Sums of each class's samples from the middle of the cube, and last its count: float64 (classes, values + 1).

    All is scaled so that a unit, whose rows share its one vote, moves it by at most 1 (Euclidean).
    """
    weight = np.empty(len(u))
    for mine in rows:
        weight[mine] = 1 / len(mine)
    hot = np.zeros((classes, len(u)))
    hot[labels, np.arange(len(u))] = weight
    sums = hot @ (u.reshape(len(u), -1).astype(np.float64) - 0.5) / _reach(u)
    return np.hstack([sums, COUNT * hot.sum(axis=1, keepdims=True)]) / np.hypot(1, COUNT)


def _reach(u: np.ndarray) -> float:
    """The distance of the cube's corners from its middle."""
    return float(np.sqrt(u[0].size) / 2)
