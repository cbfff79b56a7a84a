"""Convex losses of a margin with bounded slope and curvature, as private risk minimisation needs them.

Each has |l'| <= 1 and |l''| <= ``curvature`` (Chaudhuri, Monteleoni and Sarwate 2011, sections 3.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit


class Loss(Protocol):
    """l, l' and l'' of margins (n,)."""

    @property
    def curvature(self) -> float:
        """The largest l''."""

    def value(self, margin: np.ndarray) -> np.ndarray:
        """l."""

    def slope(self, margin: np.ndarray) -> np.ndarray:
        """l'."""

    def bend(self, margin: np.ndarray) -> np.ndarray:
        """l''."""


class Logistic:
    """log(1 + exp(-m))."""

    curvature = 0.25

    def value(self, margin: np.ndarray) -> np.ndarray:
        """l."""
        return np.logaddexp(0, -margin)

    def slope(self, margin: np.ndarray) -> np.ndarray:
        """l'."""
        return -expit(-margin)

    def bend(self, margin: np.ndarray) -> np.ndarray:
        """l''."""
        return expit(margin) * expit(-margin)


@dataclass(frozen=True)
class Huber:
    """The hinge loss with a parabola of half-width ``h`` at its corner (their eq. 7)."""

    h: float

    @property
    def curvature(self) -> float:
        """1 / 2h."""
        return 1 / (2 * self.h)

    def value(self, margin: np.ndarray) -> np.ndarray:
        """l."""
        rest = 1 - margin
        return np.where(rest > self.h, rest, np.where(rest < -self.h, 0.0, (rest + self.h) ** 2 / (4 * self.h)))

    def slope(self, margin: np.ndarray) -> np.ndarray:
        """l'."""
        return -np.clip((1 - margin + self.h) / (2 * self.h), 0, 1)

    def bend(self, margin: np.ndarray) -> np.ndarray:
        """l'', one of its two values at the ends of the parabola."""
        return (np.abs(1 - margin) <= self.h) / (2 * self.h)
