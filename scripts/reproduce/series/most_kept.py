"""How much of a property of x can be kept at all, where what leaves tells nothing of the person."""

from __future__ import annotations

import numpy as np


def most_kept(values: np.ndarray, y: np.ndarray, z: np.ndarray, recording: np.ndarray) -> float:
    """The largest correlation within y of ``values`` (n,) with anything that is independent of z given y.

    Where c is independent of z, E[v | c] does not have the part of v that follows from z, so the square of its
    correlation with v is at most the share of the variance within y that z does not explain. That share is estimated
    without bias for few recordings: two recordings of one person and one y have nothing in common but these.
    """
    centred = values - (np.bincount(y, values) / np.maximum(np.bincount(y), 1))[y]
    number, first, of = np.unique(recording, return_index=True, return_inverse=True)
    mean = np.bincount(of, centred) / np.bincount(of)
    cell = np.unique(np.stack([y[first], z[first]]), axis=1, return_inverse=True)[1].reshape(-1)
    count, total, squares = (np.bincount(cell, weights) for weights in (np.ones(len(number)), mean, mean**2))
    of_person = float((total**2 - squares).sum() / (count * (count - 1)).sum())
    return float(np.sqrt(np.clip(1 - of_person / (centred**2).mean(), 0, 1)))
