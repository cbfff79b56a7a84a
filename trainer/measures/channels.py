"""Two worst cases over the rows of a channel Q(c' | c)."""

from __future__ import annotations

import numpy as np


def posterior_shift(joint: np.ndarray, q: np.ndarray) -> float:
    """max over z and c' of |log P(z|c') - log P(z)| for counts ``joint`` (K, Z) behind the channel ``q`` (K, C)."""
    joint = np.asarray(joint, np.float64) / np.sum(joint)
    out = joint.T @ (q / q.sum(axis=1, keepdims=True))  # P(z, c')
    p_z, p_c = out.sum(axis=1, keepdims=True), out.sum(axis=0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.abs(np.log(out / (p_z * p_c)))
    return float(np.where(p_z * p_c > 0, shift, 0.0).max())


def total_variation(q: np.ndarray) -> float:
    """The largest total-variation distance between two rows of ``q``: 0 where c' says nothing of c, at most 1."""
    q = q / q.sum(axis=1, keepdims=True)
    return float(max(0.5 * np.abs(q - row).sum(axis=1).max() for row in q))
