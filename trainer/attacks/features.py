"""Features of released samples: the frame as numbers, its lowest bits, and what else the adversary knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgeveil.trainer.attacks.problem import Problem, Released


def unit(problem: Problem, part: Released) -> np.ndarray:
    """x' in the unit cube, or as it is where x has no range; float32 (n, *shape)."""
    if problem.input.low is None:
        return part.x.reshape((-1, *problem.input.shape)).astype(np.float32)
    low, high = (np.asarray(end, np.float32) for end in (problem.input.low, problem.input.high))
    return (part.x.reshape((-1, *problem.input.shape)).astype(np.float32) - low) / (high - low)


def side(problem: Problem, part: Released) -> np.ndarray:
    """What the adversary knows beside the frame: y one-hot and every further output; float32 (n, k)."""
    known = np.eye(problem.theta.shape[0], dtype=np.float32)[part.y]
    return known if part.also is None else np.concatenate([known, part.also.astype(np.float32)], axis=1)


@dataclass(frozen=True)
class Standard:
    """Features shifted and scaled to mean 0 and variance 1 on the training rows.

    Scaling is what lets a linear model or a network see a bit hidden in a pixel that hardly varies. A constant
    feature stays 0 whatever it becomes later; nothing lies further out than 30 standard deviations.
    """

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, features: np.ndarray) -> Standard:
        """Mean and variance of ``features`` (n, ...), each position by itself."""
        spread = features.std(axis=0)
        with np.errstate(divide="ignore"):
            scale = np.where(spread > 1e-7, 1.0 / spread, 0.0)
        return cls(features.mean(axis=0), scale.astype(np.float32))

    def apply(self, features: np.ndarray) -> np.ndarray:
        """Standardised features, same shape."""
        return np.clip((features - self.mean) * self.scale, -30.0, 30.0)


def flat(problem: Problem, part: Released) -> np.ndarray:
    """x' in the unit cube as one row of features each, float32 (n, d)."""
    return unit(problem, part).reshape(len(part), -1)


def low_bits(part: Released, planes: int = 2) -> np.ndarray:
    """The ``planes`` lowest bits of every value of x', uint8 (n, planes d): of integers, or of a float's mantissa.

    No eye and no smooth model sees them, and one of them is enough to carry z out.
    """
    values = np.ascontiguousarray(part.x.reshape(len(part), -1))
    if values.dtype.kind == "f":
        values = values.view(np.dtype(f"u{values.dtype.itemsize}"))
    return np.concatenate([(values >> plane) & 1 for plane in range(planes)], axis=1).astype(np.uint8)
