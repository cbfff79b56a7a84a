"""Mean pictures of the classes by the Gaussian mechanism, on sums and counts to which each unit adds a bounded share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgeveil.trainer.private.noise import Noise

COUNT = 0.5  # weight of a count beside a sum, both scaled to 1 for each unit: pictures need their sums more


def noisy_means(
    u: np.ndarray, labels: np.ndarray, classes: int, rows: Sequence[np.ndarray], *, sigma: float, noise: Noise
) -> np.ndarray:
    """The means (classes, *shape) of samples u (n, *shape) in the unit cube, float32 within the cube.

    ``rows`` are the row numbers of each unit, whose rows share its one vote. A unit moves all that is noised by at
    most 1 (Euclidean), and the noise has the deviation ``sigma``.
    """
    weight = np.empty(len(u))
    for mine in rows:
        weight[mine] = 1 / len(mine)
    flat = u.reshape(len(u), -1).astype(np.float64) - 0.5  # as far from the middle as the cube allows: sqrt(d) / 2
    reach = np.sqrt(flat.shape[1]) / 2
    hot = np.zeros((classes, len(u)))
    hot[labels, np.arange(len(u))] = weight
    noised = np.hstack([hot @ flat / reach, COUNT * hot.sum(axis=1, keepdims=True)]) / np.hypot(1, COUNT)
    noised = (noised + noise.gaussian(noised.shape, sigma)) * np.hypot(1, COUNT)
    counts = np.maximum(noised[:, -1:] / COUNT, 1)
    means = 0.5 + noised[:, :-1] * reach / counts
    return np.clip(means, 0, 1).astype(np.float32).reshape(classes, *u.shape[1:])
