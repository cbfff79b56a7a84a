"""T(x): what of a reading should survive in its code. The product decision of a codebook, made by the key ``keep``.

Each part is centred, brought to unit variance in total, and weighted by the square root of its share, so that squared
distances of T count every part alike whatever its number of dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.measures.moments import moments

PIXEL_COMPONENTS = 16


@dataclass(frozen=True)
class Part:
    """One part of T: ``of(u, rows)`` gives raw values (n, d); then (values - mean) @ matrix."""

    of: Callable[[np.ndarray, np.ndarray], np.ndarray]
    mean: np.ndarray
    matrix: np.ndarray


@dataclass(frozen=True)
class Kept:
    """T as fitted on training rows. Call it with unit-cube readings and their row numbers in the data set."""

    parts: tuple[Part, ...]

    def __call__(self, u: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """T (n, d) float32 of readings u (n, ...) which are the rows ``rows`` (n,)."""
        return np.concatenate([(p.of(u, rows) - p.mean) @ p.matrix for p in self.parts], axis=1).astype(np.float32)


def fit_kept(
    keep: Sequence[str],
    u: np.ndarray,
    rows: np.ndarray,
    *,
    y: np.ndarray,
    attributes: Mapping[str, np.ndarray] | None = None,
    functions: Mapping[str, Callable[[np.ndarray], np.ndarray]] | None = None,
) -> Kept:
    """T for ``keep``: "pixels" (principal components), "moments" (``MOMENTS`` of an image), or the name of an attribute
    of the data set or of a function of unit-cube readings (n, ...) to (n,) or (n, d).

    What is kept is what varies *within* y, as y leaves anyway. ``attributes`` maps a name to values (N,) of the whole
    data set. Raises ``BadInput`` for an unknown name or a property that does not vary.
    """
    attributes, functions = attributes or {}, functions or {}
    if not keep or len(set(keep)) != len(keep):
        raise BadInput(f"`keep` must name at least one property, each once; got {list(keep)}.")
    parts = []
    for name in keep:
        of = _source(name, u, attributes, functions)
        values = of(u, rows)
        residual = values - _class_means(values, y)
        mean, matrix = values.mean(axis=0), _whitened(residual, pixels=name == "pixels")
        spread = float(((residual @ matrix) ** 2).sum(axis=1).mean())
        if not np.isfinite(spread) or spread < 1e-12:
            raise BadInput(f'`keep`: "{name}" does not vary within any class of y, so there is nothing to keep of it.')
        parts.append(Part(of, mean, matrix / np.sqrt(spread * len(keep))))
    return Kept(tuple(parts))


def _source(
    name: str,
    u: np.ndarray,
    attributes: Mapping[str, np.ndarray],
    functions: Mapping[str, Callable[[np.ndarray], np.ndarray]],
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    if name == "pixels":
        return lambda u, _rows: u.reshape(len(u), -1).astype(np.float64)
    if name == "moments":
        if u.ndim != 4:
            raise BadInput(
                '`keep`: "moments" are of images; for vectors name "pixels" (their components) or an attribute.'
            )
        return lambda u, _rows: moments(u)
    if name in functions:
        return lambda u, _rows: _columns(functions[name](u), len(u), name)
    if name in attributes:
        return lambda _u, rows: _columns(np.asarray(attributes[name], np.float64)[rows], len(rows), name)
    known = ["pixels", "moments", *functions, *attributes]
    raise BadInput(f'`keep`: there is no "{name}" in these data; it may name {", ".join(known)}.')


def _columns(values: np.ndarray, count: int, name: str) -> np.ndarray:
    values = np.asarray(values, np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != count or not np.isfinite(values).all():
        raise BadInput(f'`keep`: "{name}" must give finite numbers (n,) or (n, d) for n readings; got {values.shape}.')
    return values


def _class_means(values: np.ndarray, y: np.ndarray) -> np.ndarray:
    numbered = np.unique(y, return_inverse=True)[1].reshape(-1)
    sums = np.zeros((int(numbered.max()) + 1, values.shape[1]))
    np.add.at(sums, numbered, values)
    return (sums / np.bincount(numbered)[:, None])[numbered]


def _whitened(residual: np.ndarray, *, pixels: bool) -> np.ndarray:
    """A matrix (d, e) to T's own coordinates: principal components as they are, other properties each to variance 1."""
    if not pixels:
        deviation = residual.std(axis=0)
        return np.diag(np.where(deviation > 1e-9, 1 / np.maximum(deviation, 1e-9), 0.0))
    values, vectors = np.linalg.eigh(np.cov(residual, rowvar=False).reshape(residual.shape[1], -1))
    return vectors[:, np.argsort(-values)[:PIXEL_COMPONENTS]]
