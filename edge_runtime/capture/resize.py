"""Resizes pictures with numpy only: the same numbers in training and on every board."""

from typing import Callable, Sequence

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]


def nearest(size: Sequence[int], to: Sequence[int]) -> Function:
    """The function from (height, width, ...) of ``size`` to ``to``: the pixel under each new pixel's middle."""
    if tuple(size) == tuple(to):
        return lambda picture: picture
    rows, columns = (((np.arange(b) + 0.5) * a / b).astype(np.intp) for a, b in zip(size, to))

    def run(picture: np.ndarray) -> np.ndarray:
        return picture.take(rows, axis=0).take(columns, axis=1)

    return run


def area(size: Sequence[int], to: Sequence[int]) -> Function:
    """The function from (height, width, channels) of ``size`` to float32 of ``to``: means over the area of each new
    pixel."""
    down, across = _shares(size[0], to[0]), _shares(size[1], to[1]).T

    def run(picture: np.ndarray) -> np.ndarray:
        x = picture.astype(np.float32)
        return np.stack([down.dot(x[..., c]).dot(across) for c in range(x.shape[2])], axis=-1)

    return run


def _shares(a: int, b: int) -> np.ndarray:
    """(b, a): the share of each old pixel in each new one; rows sum to 1."""
    edges = np.arange(b + 1) * (float(a) / b)
    old = np.arange(a, dtype=np.float64)
    overlap = np.minimum(edges[1:, None], old + 1) - np.maximum(edges[:-1, None], old)
    overlap = np.maximum(overlap, 0)
    return (overlap / overlap.sum(axis=1, keepdims=True)).astype(np.float32)
