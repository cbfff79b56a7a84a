"""T(x) under [private]: the same transform for everybody's data, since one that is fitted to them would tell of them.

"pixels" are the means of 16 equal parts of a sample in place of principal components; moments are centred and scaled by
figures for a drawing in the middle of a picture. What lies further than ``REACH`` is pulled back, so that sums of T
have a bounded share of each unit.
"""

from __future__ import annotations

import numpy as np

from edgeveil.trainer.measures.moments import MOMENTS, moments
from edgeveil.trainer.recipe.perturber import Codebook

REACH = 2.0  # the largest length of T, which has about unit variance
PARTS = 4  # each way
SPREAD = 0.25  # of a part's mean in the unit cube
MIDDLE = {"ink": (0.15, 0.05), "slant": (0.0, 0.3), "stroke": (3.0, 1.0)}  # and deviation


def fixed_kept(section: Codebook, u: np.ndarray) -> np.ndarray:
    """T (n, d), float32, of samples u (n, ...) in the unit cube; parts count by the section's ``weights``."""
    shares = np.ones(len(section.keep)) if section.weights is None else np.array(section.weights)
    parts = [_part(name, u) * np.sqrt(share) for name, share in zip(section.keep, shares / shares.sum(), strict=True)]
    found = np.concatenate(parts, axis=1)
    length = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found * np.minimum(1, REACH / np.maximum(length, 1e-12)), np.float32)


def _part(name: str, u: np.ndarray) -> np.ndarray:
    """One of ``keep`` (n, e), of about unit variance in all."""
    if name == "pixels":
        means = _means(u)
        return np.asarray((means - 0.5) / SPREAD / np.sqrt(means.shape[1]))
    names = MOMENTS if name == "moments" else (name,)
    values = moments(u)[:, [MOMENTS.index(one) for one in names]]
    middle, deviation = np.array([MIDDLE[one] for one in names]).T
    return np.asarray((values - middle) / deviation / np.sqrt(len(names)))


def _means(u: np.ndarray) -> np.ndarray:
    """Of 4 x 4 parts of pictures, or of 16 runs of a vector's values: (n, parts)."""
    if u.ndim == 4:
        rows = [part.mean(axis=(1, 3)) for part in np.array_split(u.astype(np.float64), PARTS, axis=1)]
        pieces = [part.mean(axis=1) for row in rows for part in np.array_split(row, PARTS, axis=1)]
    else:
        flat = u.reshape(len(u), -1).astype(np.float64)
        pieces = [part.mean(axis=1) for part in np.array_split(flat, min(PARTS**2, flat.shape[1]), axis=1)]
    return np.stack(pieces, axis=1)
