"""Discrete Laplace noise on a grid, without a cut at the ends of the range: a receiver averages without bias."""

import numpy as np

MOST = 2**24  # steps at which a report saturates: a rule for all, which tells nothing


def report(u: np.ndarray, steps: np.ndarray, levels: int) -> np.ndarray:
    """u float32 (n, d) of [0, 1] and ``steps`` int64 (n, d) in, the noisy places on a grid of ``levels`` steps out,
    int32 (n, d)."""
    place = np.rint(u * np.float32(levels)).astype(np.int64)
    # Clipped first, so that no sum can wrap around; a larger step would end at the same place.
    place += np.minimum(np.maximum(steps, -2 * MOST), 2 * MOST)
    return np.minimum(np.maximum(place, -MOST), MOST).astype(np.int32)
