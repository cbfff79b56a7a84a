"""Gradient descent on the means of private gradients (paper 002, LPSGD): theta_t = theta_(t-1) - step / sqrt(t) mean_t.

The estimate is the mean of the later half of the iterates: single ones carry the noise of their last rounds.
"""

from __future__ import annotations

import numpy as np


class Descent:
    """From 0, for ``rounds`` rounds; every parameter stays within ``most`` either way, where devices accept it."""

    def __init__(self, d: int, *, rounds: int, step: float, most: float) -> None:
        self.theta = np.zeros(d)
        self.rounds, self.done = rounds, 0
        self._step, self._most = step, most
        self._later = np.zeros(d)

    def take(self, gradients: np.ndarray) -> None:
        """One step down the mean of ``gradients`` float64 (n, d); a round without any leaves theta as it is."""
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
