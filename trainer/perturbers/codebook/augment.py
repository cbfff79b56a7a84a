"""Copies of a picture that show the same thing a little nearer, further away, larger or elsewhere.

An encoder's errors about a person outside the training data repeat, and so identify that person. Training on copies
makes errors rarer (docs/explanation/streams.md).
"""

from __future__ import annotations

import numpy as np


def images(u: np.ndarray, *, shift: int, scale: float, offset: float, rng: np.random.Generator) -> np.ndarray:
    """One changed copy of each unit-cube picture u (n, height, width, channels); float32 of the same shape.

    Each is moved by up to ``shift`` pixels, made up to ``scale`` (a share) larger or smaller about its middle, and all
    its values except 0, the background, are shifted by up to ``offset`` together. The nearest pixel is taken, so that
    no value is a mean across an outline.
    """
    n, height, width, _ = u.shape
    by = rng.uniform(1 - scale, 1 + scale, (n, 1))
    moved = rng.integers(-shift, shift + 1, (n, 2))

    def source(size: int, axis: int) -> np.ndarray:
        middle = (size - 1) / 2
        return np.rint((np.arange(size)[None] - middle - moved[:, axis, None]) / by + middle).astype(np.int64)

    rows, columns = source(height, 0), source(width, 1)
    inside = ((rows >= 0) & (rows < height))[:, :, None] & ((columns >= 0) & (columns < width))[:, None, :]
    at = np.arange(n)[:, None, None], np.clip(rows, 0, height - 1)[:, :, None], np.clip(columns, 0, width - 1)[:, None]
    copy = u[at] * inside[..., None]
    step = rng.uniform(-offset, offset, (n, 1, 1, 1))
    return np.where(copy > 0, np.clip(copy + step, 1e-3, 1.0), 0.0).astype(np.float32)
