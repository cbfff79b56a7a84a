"""Moments of images: ink, slant and stroke width."""

from __future__ import annotations

import numpy as np

MOMENTS = ("ink", "slant", "stroke")


def moments(u: np.ndarray) -> np.ndarray:
    """Ink, slant and stroke width of images u (n, height, width, channels) in [0, 1]: float64 (n, 3).

    Ink is the mean value. Slant is the shear mu_11 / mu_02 of the image's second moments: columns moved per row. Stroke
    is twice the ink over the length of its outline (the sum of absolute steps between neighbours), in pixels.
    """
    image = u.mean(axis=3).astype(np.float64)
    height, width = image.shape[1:]
    ink = image.mean(axis=(1, 2))
    mass = np.maximum(image.sum(axis=(1, 2)), 1e-9)
    down, right = np.arange(height, dtype=np.float64), np.arange(width, dtype=np.float64)
    row, column = image.sum(axis=2) @ down / mass, image.sum(axis=1) @ right / mass
    dy, dx = down[None, :] - row[:, None], right[None, :] - column[:, None]
    shear = np.einsum("nhw,nh,nw->n", image, dy, dx) / np.maximum(np.einsum("nhw,nh->n", image, dy**2), 1e-9)
    outline = np.abs(np.diff(image, axis=1)).sum(axis=(1, 2)) + np.abs(np.diff(image, axis=2)).sum(axis=(1, 2))
    return np.stack([ink, shear, 2 * image.sum(axis=(1, 2)) / np.maximum(outline, 1e-9)], axis=1)
