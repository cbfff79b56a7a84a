"""Features of released samples: the frame as numbers, its lowest bits, and what else the adversary knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from edgeveil.trainer.attacks.problem import Problem, Released

MOST_VALUES, MOST_LEVELS = 200_000, 1 << 16  # looked at; told apart
NEAR = 0.02  # of a step
DIVISORS = range(3, 17)


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


class Levels(NamedTuple):
    """The even steps that values take: a picture of bytes divided by 255 is still one of bytes."""

    low: float
    step: float

    @classmethod
    def from_samples(cls, x: np.ndarray) -> Levels | None:
        """The levels of x (n, ...); None for floats that are not on at most ``MOST_LEVELS`` even steps."""
        if x.dtype.kind != "f":
            return cls(0.0, 1.0)
        values = np.unique(x.ravel()[:MOST_VALUES].astype(np.float64))
        whole = values[-1] - values[0]
        # Neighbours that differ in their last digit are on one level.
        apart = np.diff(values)[np.diff(values) > whole / MOST_LEVELS]
        if not np.isfinite(whole) or not len(apart):
            return None
        levels = cls(float(values[0]), float(whole / np.rint(whole / apart.min())))
        off = (values - levels.low) / levels.step
        return levels if np.abs(off - np.rint(off)).max() < NEAR else None

    def number(self, x: np.ndarray) -> np.ndarray:
        """The level of each value of x (n, ...): integers as they are, int32 for floats, which takes as much memory."""
        if x.dtype.kind != "f":
            return x
        numbers = np.empty(x.shape, np.int32)
        for row, values in zip(numbers, x, strict=True):
            row[...] = np.rint((values.astype(np.float64) - self.low) / self.step)
        return numbers


def low_bits(part: Released, planes: int = 2, levels: Levels | None = None) -> np.ndarray:
    """The ``planes`` lowest bits of every value of x', uint8 (n, planes d): of integers, or of a float's mantissa.

    Neither an eye nor a smooth model sees them, and one of them is enough to carry z. Those of the ``levels`` of floats
    come first.
    """
    values = np.ascontiguousarray(part.x.reshape(len(part), -1))
    of = [values]
    if values.dtype.kind == "f":
        of = [values.view(np.dtype(f"u{values.dtype.itemsize}"))]
        of = of if levels is None else [levels.number(values), *of]
    return np.concatenate([(one >> plane) & 1 for one in of for plane in range(planes)], axis=1).astype(np.uint8)


def remainders(part: Released, levels: Levels | None) -> np.ndarray:
    """Whether the sum of all levels of x' leaves each remainder, divided by 3 to 16: uint8 (n, remainders).

    A sum that carries z changes no value by more than a few levels, and depends on all of them at once.
    """
    if levels is None:
        return np.empty((len(part), 0), np.uint8)
    total = levels.number(part.x.reshape(len(part), -1)).sum(axis=1, dtype=np.int64)
    return np.stack([total % by == left for by in DIVISORS for left in range(by)], axis=1).astype(np.uint8)
