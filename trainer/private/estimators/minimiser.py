"""The minimum of a regularised risk with a random linear term, to a gradient of nearly nothing.

Objective perturbation is private at the exact minimum, so what remains of the gradient is reported.
"""

from __future__ import annotations

import numpy as np

from edgeveil.trainer.private.estimators.losses import Loss

CLOSE = 1e-9  # norm of the gradient
NEAR = 1e-6  # of a gradient, too
MOST_STEPS = 200


def minimum(
    rows: np.ndarray, loss: Loss, regularization: float, linear: np.ndarray, *, start: np.ndarray | None = None
) -> tuple[np.ndarray, float]:
    """The w (d,) with the least mean l(rows w) + regularization/2 |w|^2 + linear w, and the norm of its gradient.

    ``rows`` (n, d) are multiplied by their labels -1 or 1. Newton's method from ``start`` (None: 0); a step is halved
    while it does not lower the objective, or near the end the gradient.
    """
    n, d = rows.shape

    def at(w: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The objective, its gradient, and the margins."""
        margin = rows @ w
        value = float(loss.value(margin).mean() + regularization / 2 * w @ w + linear @ w)
        return value, rows.T @ loss.slope(margin) / n + regularization * w + linear, margin

    w = np.zeros(d) if start is None else start
    value, slope, margin = at(w)
    for _ in range(MOST_STEPS):
        if np.linalg.norm(slope) <= CLOSE:
            break
        step = np.linalg.solve(_curved(rows, loss.bend(margin)) / n + regularization * np.eye(d), slope)
        size = 1.0
        while size > 1e-10:
            after = w - size * step
            new_value, new_slope, margin = at(after)
            # Close to the minimum the objective's own rounding hides what a step gains.
            near = np.linalg.norm(slope) < NEAR and np.linalg.norm(new_slope) < np.linalg.norm(slope)
            if near or new_value <= value - 1e-4 * size * slope @ step:
                break
            size /= 2
        else:
            break
        w, value, slope = after, new_value, new_slope
    return w, float(np.linalg.norm(slope))


def _curved(rows: np.ndarray, bend: np.ndarray) -> np.ndarray:
    """The sum of ``bend`` (n,) times x x^T over rows x: (d, d). Many losses are straight for most rows."""
    kept = bend > 0
    if not kept.all():
        rows, bend = rows[kept], bend[kept]
    scaled = rows * np.sqrt(bend)[:, None]
    return np.asarray(scaled.T @ scaled)
