"""Features of released samples: the frame as numbers, its lowest bits, and what else the adversary knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgeveil.trainer.attacks.problem import Problem, Released


def unit(problem: Problem, part: Released) -> np.ndarray:
    """x' in the unit cube, or as it is where x has no range; float32 (n, *shape)."""
    x = part.x.reshape((-1, *problem.input.shape)).astype(np.float32)
    if problem.input.low is None:
        return x
    low, high = (np.asarray(end, np.float32) for end in (problem.input.low, problem.input.high))
    return (x - low) / (high - low)


def side(problem: Problem, part: Released) -> np.ndarray:
    """What the adversary knows besides the frame: y one-hot and every further output; float32 (n, k)."""
    known = np.eye(problem.theta.shape[0], dtype=np.float32)[part.y]
    return known if part.also is None else np.concatenate([known, part.also.astype(np.float32)], axis=1)


@dataclass(frozen=True)
class Standard:
    """Features shifted and scaled to mean 0 and variance 1 on the training rows.

    Scaling lets a linear model or a network see a bit hidden in a pixel that hardly varies. A feature that is constant
    in training stays 0; values are clipped at 30 standard deviations.
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


def everything(problem: Problem, part: Released) -> np.ndarray:
    """x' in the unit cube, y one-hot and every further output as one row of features each, float32 (n, d)."""
    return np.concatenate([flat(problem, part), side(problem, part)], axis=1)


def low_bits(part: Released, planes: int = 2) -> np.ndarray:
    """The ``planes`` lowest bits of every value of x', uint8 (n, planes d): of integers, or of a float's mantissa.

    Neither an eye nor a smooth model sees them, and one of them is enough to carry z.
    """
    values = np.ascontiguousarray(part.x.reshape(len(part), -1))
    if values.dtype.kind == "f":
        values = values.view(np.dtype(f"u{values.dtype.itemsize}"))
    return np.concatenate([(values >> plane) & 1 for plane in range(planes)], axis=1).astype(np.uint8)
