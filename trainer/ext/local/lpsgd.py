"""LPSGD (paper 002): gradient descent on private gradients, one of each user.

theta_t = theta_(t-1) - step / sqrt(t) mean_t, where mean_t is that of the reports of round t. The estimate is the mean
of the later half of the iterates: single ones carry the noise of their last rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

# d loss / d score, of a score theta . x (n,) and a label y (n,). tanh does not overflow where an exponential does.
RESIDUALS: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "logistic": lambda score, y: 0.5 * (1.0 + np.tanh(0.5 * score)) - y,  # labels 0 and 1
    "squared": lambda score, y: score - y,
    "median": lambda score, y: np.sign(score - y),
}


class Descent:
    """From 0, for ``rounds`` rounds of d parameters; each stays within ``most`` either way. ``theta`` (d,) is the
    latest iterate."""

    def __init__(self, d: int, *, rounds: int, step: float, most: float = np.inf) -> None:
        self.theta = np.zeros(d)
        self.rounds, self.done = rounds, 0
        self._step, self._most = step, most
        self._later = np.zeros(d)

    def take(self, gradients: np.ndarray) -> None:
        """One step down the mean of ``gradients`` float64 (n, d), recorded or simulated; a round without any leaves
        theta as it is."""
        self.done += 1
        if len(gradients):
            moved = self.theta - self._step / np.sqrt(self.done) * gradients.mean(axis=0)
            self.theta = np.clip(moved, -self._most, self._most)
        if self.done > self.rounds // 2:
            self._later += self.theta

    def estimate(self) -> np.ndarray | None:
        """The mean of the later half (d,); None before it has begun."""
        counted = self.done - self.rounds // 2
        return self._later / counted if counted > 0 else None


def clipped_gradients(x: np.ndarray, y: np.ndarray, theta: np.ndarray, *, loss: str, clip: float) -> np.ndarray:
    """The gradient of each user's own loss at ``theta`` (d,), each value clipped to [-clip, clip]: float64 (n, d).

    ``x`` float64 (n, d) are features, ``y`` (n,) labels; ``loss`` is a key of ``RESIDUALS``.
    """
    return np.clip(RESIDUALS[loss](x @ theta, y)[:, None] * x, -clip, clip)


def fit(
    x: np.ndarray,
    y: np.ndarray,
    report: Callable[[np.ndarray], np.ndarray],
    *,
    loss: str = "logistic",
    clip: float = 1.0,
    rounds: int,
    step: float,
    most: float = np.inf,
) -> np.ndarray:
    """The estimate (d,) from users x (n, d), y (n,), each asked in one of ``rounds`` rounds.

    ``report`` is a local mechanism with its decoder: it takes vectors (m, d) in the cube from -1 to 1 and returns an
    unbiased estimate (m, d) of each.
    """
    descent = Descent(x.shape[1], rounds=rounds, step=step, most=most)
    for lot in np.array_split(np.arange(len(y)), rounds):
        gradients = clipped_gradients(x[lot], y[lot], descent.theta, loss=loss, clip=clip)
        descent.take(clip * report(gradients / clip) if len(lot) else gradients)
    return np.asarray(descent.estimate())
