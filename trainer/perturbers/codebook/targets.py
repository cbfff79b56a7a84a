"""T(x): what of a sample should survive in its code. The recipe's key ``keep`` decides it.

Each part is centred, brought to unit variance in total, and weighted by the square root of its share, so that squared
distances of T count every part by its share, however many dimensions it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.measures.moments import MOMENTS, moments
from edgeveil.trainer.perturbers.codebook.group_means import group_means

PIXEL_COMPONENTS = 16

# From unit-cube samples u (n, ...) and their row numbers (n,) in the data set to values (n, d).
Values = Callable[[np.ndarray, np.ndarray], np.ndarray]


def fit_kept(
    keep: Sequence[str],
    u: np.ndarray,
    rows: np.ndarray,
    *,
    y: np.ndarray,
    attributes: Mapping[str, np.ndarray] | None = None,
    weights: Sequence[float] | None = None,
) -> Values:
    """Fit T to the rows ``rows`` (n,), with samples u (n, ...) and y (n,); T is float32.

    ``keep`` names "pixels" (principal components), "moments" (``MOMENTS`` of an image), one of these, and attributes of
    the data set. ``weights`` are the shares of each in squared distances; None: all alike. ``attributes`` maps a name
    to values (N,) of the whole data set. T keeps what varies *within* y, since y is sent anyway. Raises ``BadInput``
    for an unknown name, a property that does not vary, or another number of weights.
    """
    if not keep or len(set(keep)) != len(keep):
        raise BadInput(f"`keep` must name at least one property, each once; got {list(keep)}.")
    shares = np.ones(len(keep)) if weights is None else np.array(weights)
    if len(shares) != len(keep):
        raise BadInput(f"`weights` must hold one number for each of the {len(keep)} of `keep`; got {len(shares)}.")
    parts = []
    for name, share in zip(keep, shares / shares.sum(), strict=True):
        of = _source(name, u, attributes or {})
        values = of(u, rows)
        numbered = np.unique(y, return_inverse=True)[1].reshape(-1)
        residual = values - group_means(values, numbered, int(numbered.max()) + 1)[numbered]
        mean, matrix = values.mean(axis=0), _whitened(residual, pixels=name == "pixels")
        spread = float(((residual @ matrix) ** 2).sum(axis=1).mean())
        if not np.isfinite(spread) or spread < 1e-12:
            raise BadInput(f'`keep`: "{name}" does not vary within any class of y, so there is nothing to keep of it.')
        parts.append((of, mean, matrix * np.sqrt(share / spread)))
    return lambda u, rows: np.concatenate([(of(u, rows) - mean) @ matrix for of, mean, matrix in parts], axis=1).astype(
        np.float32
    )


def _source(name: str, u: np.ndarray, attributes: Mapping[str, np.ndarray]) -> Values:
    if name == "pixels":
        return lambda u, _rows: u.reshape(len(u), -1).astype(np.float64)
    if name == "moments":
        if u.ndim != 4:
            raise BadInput(
                '`keep`: "moments" are of images; for vectors name "pixels" (their components) or an attribute.'
            )
        return lambda u, _rows: moments(u)
    if name in MOMENTS and u.ndim == 4:
        return lambda u, _rows: moments(u)[:, [MOMENTS.index(name)]]
    if name not in attributes:
        known = ", ".join(["pixels", *(["moments", *MOMENTS] if u.ndim == 4 else []), *attributes])
        raise BadInput(f'`keep`: there is no "{name}" in these data; it may name {known}.')

    def attribute(_u: np.ndarray, rows: np.ndarray) -> np.ndarray:
        values = np.asarray(attributes[name], np.float64)[rows]
        if values.ndim != 1 or not np.isfinite(values).all():
            raise BadInput(f'`keep`: "{name}" must hold one finite number for each sample; got shape {values.shape}.')
        return values[:, None]

    return attribute


def _whitened(residual: np.ndarray, *, pixels: bool) -> np.ndarray:
    """A matrix (d, e) to T's coordinates: principal components unscaled, other properties each to variance 1."""
    if not pixels:
        deviation = residual.std(axis=0)
        return np.diag(np.where(deviation > 1e-9, 1 / np.maximum(deviation, 1e-9), 0.0))
    values, vectors = np.linalg.eigh(np.cov(residual, rowvar=False).reshape(residual.shape[1], -1))
    return vectors[:, np.argsort(-values)[:PIXEL_COMPONENTS]]
