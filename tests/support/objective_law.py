"""What objective perturbation spends in one dimension with one row, exactly."""

from __future__ import annotations

import numpy as np

from edgeveil.trainer.ext.private.estimators.perturbed_risk import Loss

ROWS = (-1.0, -0.5, 0.0, 0.5, 1.0)  # a label times a value


def log_ratio(n_lambda: float, scale: float, more: float, loss: Loss, *, reach: float = 1.0) -> float:
    """The largest log-ratio of the densities of w under two of ``ROWS``, times ``reach``, for noise b of that
    ``scale``.

    w is the minimum where b = -(x l'(xw) + (n_lambda + more) w), so a change of variables gives its density. ``more``
    is the further regularization, times the number of rows, which is 1.
    """
    w = np.linspace(-60, 60, 240_001)

    def log_density(row: float) -> np.ndarray:
        b = -(row * loss.slope(row * w) + (n_lambda + more) * w)
        return -np.abs(b) / scale + np.log(loss.bend(row * w) * row**2 + n_lambda + more)

    densities = [log_density(reach * row) for row in ROWS]
    return max(float((one - other).max()) for one in densities for other in densities)
