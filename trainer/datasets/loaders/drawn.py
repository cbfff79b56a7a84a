"""DRAWN digits: 20,000 pictures of 8 x 8 pixels, 0 to 16, which this file draws with a pen; no files, no person's data.

Each is a path of the digit, of straight pieces, that is bent, scaled, sheared and moved at random, and drawn with a pen
of random width and pressure. How wide, slanted and dark it is does not depend on the digit, so the class and the hand
can be kept while which digit it is is not. There are rows enough for an audit to bound what is sent, which the 1,797 of
scikit-learn are not. What is found speaks of these drawings, not of anybody's handwriting.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from edgeveil.trainer.datasets.readings import DataSet, Readings, digit_readings
from edgeveil.trainer.recipe.data_section import Data
from edgeveil.trainer.recipe.training_sections import Capture

ROWS = 20_000
SEED = 1
SIDE, HIGH = 8, 16.0
CHUNK = 1000  # pictures that are drawn at a time
Path = list[tuple[float, float]]  # (right, down) from the middle; a digit is 1 high


def _arc(right: float, down: float, across: float, high: float, start: float, end: float) -> Path:
    """Eight pieces of an ellipse with half axes ``across`` and ``high``, from ``start`` to ``end``: degrees clockwise
    from the right."""
    angle = np.radians(np.linspace(start, end, 9))
    return list(zip(right + across * np.cos(angle), down + high * np.sin(angle), strict=True))


DIGITS: tuple[tuple[Path, ...], ...] = (
    (_arc(0, 0, 0.28, 0.5, 0, 360),),
    ([(-0.15, -0.32), (0.03, -0.5), (0.03, 0.5)],),
    ([*_arc(0, -0.23, 0.26, 0.27, 180, 390), (-0.28, 0.5), (0.3, 0.5)],),
    ([*_arc(0, -0.26, 0.24, 0.24, 200, 450), *_arc(0, 0.24, 0.28, 0.26, 270, 520)],),
    ([(0.1, -0.5), (-0.3, 0.15), (0.32, 0.15)], [(0.14, -0.15), (0.14, 0.5)]),
    ([(0.26, -0.5), (-0.2, -0.5), (-0.22, -0.08), *_arc(-0.02, 0.18, 0.28, 0.3, 230, 510)],),
    ([(0.15, -0.5), (-0.15, -0.15), *_arc(0, 0.22, 0.26, 0.28, 190, 550)],),
    ([(-0.28, -0.5), (0.28, -0.5), (-0.08, 0.5)],),
    (_arc(0, -0.25, 0.22, 0.25, 90, 450), _arc(0, 0.25, 0.27, 0.25, -90, 270)),
    ([*_arc(0, -0.22, 0.26, 0.28, 0, 360), (0.24, 0.1), (0.1, 0.5)],),
)


class Drawn(DataSet):
    """The drawn digits."""

    names = ("drawn",)
    licence = "none needed: drawn by this program"
    sensor = "camera"

    @classmethod
    def read(cls, data: Data, capture: Capture | None) -> Readings:
        """See ``DataSet``."""
        digit, x = _all()
        return digit_readings(x, digit, target=data.target, sensitive=data.sensitive, high=HIGH)


@lru_cache(maxsize=1)
def _all() -> tuple[np.ndarray, np.ndarray]:
    """The digits (ROWS,), each as often as the others and in random order, and their pictures; the same each time."""
    rng = np.random.default_rng(SEED)
    digit = rng.permutation(np.arange(ROWS) % 10)
    return digit, draw(digit, rng)


def draw(digit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Pictures uint8 (n, SIDE, SIDE) from 0 to 16 of ``digit`` (n,) below 10, each by another hand."""
    return np.concatenate([_draw(digit[at : at + CHUNK], rng) for at in range(0, len(digit), CHUNK)])


def _draw(digit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    n = len(digit)
    ends = PIECES[digit]  # (n, pieces, 2 ends, right and down)
    right, down = ends[..., 0], ends[..., 1]
    bent = np.stack([right * down, right**2, down**2], axis=-1)
    bend = rng.normal(0, 0.12, (n, 1, 3, 2))
    right, down = right + (bent @ bend)[..., 0], down + (bent @ bend)[..., 1]
    wide, high = rng.uniform(0.75, 1.15, (n, 1, 1)), rng.uniform(0.66, 0.8, (n, 1, 1))
    slant, (aside, below) = rng.normal(0, 0.25, (n, 1, 1)), rng.uniform(-0.05, 0.05, (2, n, 1, 1))
    ends = np.stack([0.5 + aside + high * (wide * right - slant * down), 0.5 + below + high * down], axis=-1)
    pen, pressure = rng.uniform(0.04, 0.09, (n, 1)), rng.uniform(0.7, 1.0, (n, 1))
    ink = np.clip(0.5 + SIDE * (pen - _distance(ends)), 0, 1) * pressure
    return np.rint(HIGH * ink).astype(np.uint8).reshape(n, SIDE, SIDE)


def _distance(ends: np.ndarray) -> np.ndarray:
    """How far the middle of each pixel (SIDE * SIDE) is from the nearest of the pieces ``ends`` (n, pieces, 2, 2), in
    sides of the picture: (n, pixels)."""
    middle = (np.arange(SIDE) + 0.5) / SIDE
    pixels = np.stack(np.meshgrid(middle, middle), axis=-1).reshape(-1, 2)
    start, step = ends[:, None, :, 0], ends[:, None, :, 1] - ends[:, None, :, 0]
    from_start = pixels[None, :, None] - start
    share = (from_start * step).sum(-1) / np.maximum((step**2).sum(-1), 1e-12)
    return np.linalg.norm(from_start - np.clip(share, 0, 1)[..., None] * step, axis=-1).min(axis=-1)


def _pieces() -> np.ndarray:
    """The straight pieces of each digit (10, pieces, 2 ends, 2); of one with fewer the last is there several times."""
    digits = [[pair for path in paths for pair in zip(path, path[1:], strict=False)] for paths in DIGITS]
    most = max(map(len, digits))
    return np.array([[*pairs, *[pairs[-1]] * (most - len(pairs))] for pairs in digits])


PIECES = _pieces()
