"""What x' still tells of harmless properties of *this* x: what a perturber gives beyond label-only, whose answer is 0.

Everything is taken within y: the class leaves anyway, and a property that follows the class (light from the left, many
access points in one building) would be credited to any perturber that keeps y.
"""

from __future__ import annotations

import numpy as np

from trainer.datasets.base import Dataset, Part
from trainer.perturbers.release.keep import MOMENTS, moments


def kept(dataset: Dataset, part: Part, frames: np.ndarray) -> dict[str, float]:
    """Correlation within y between x and x' by property, for rows ``part`` and their raw ``frames`` (n, *shape).

    Ink, slant and stroke are measured on images. An attribute that the data set knows is looked up where every frame is
    a reading of the data set (donors); else it is left out, for nobody knows it of a frame that is nobody's.
    """
    found = {}
    if dataset.input.kind == "image":
        before, after = moments(dataset.unit(part.x)), moments(dataset.unit(frames))
        found = {name: within(before[:, i], after[:, i], part.y) for i, name in enumerate(MOMENTS)}
    donors = _rows_of(dataset, frames) if dataset.attributes else None
    if donors is not None:
        for name, values in dataset.attributes.items():
            found[name] = within(values[part.index], values[donors], part.y)
    return found


def within(a: np.ndarray, b: np.ndarray, y: np.ndarray) -> float:
    """Correlation of a and b (n,) after the mean of each class of y (n,) is taken off; 0 where either does not vary."""
    a, b = _residual(a, y), _residual(b, y)
    scale = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum()) / scale if scale > 1e-12 else 0.0


def _residual(values: np.ndarray, y: np.ndarray) -> np.ndarray:
    sums, n = np.bincount(y, values), np.maximum(np.bincount(y), 1)
    return values - (sums / n)[y]


def _rows_of(dataset: Dataset, frames: np.ndarray) -> np.ndarray | None:
    """The training row that each frame is, or None where some frame is none."""
    training = np.concatenate([dataset.slices.classifiers, dataset.slices.perturber])
    places = {dataset.x[row].tobytes(): row for row in training}
    rows = [places.get(np.ascontiguousarray(frame).tobytes(), -1) for frame in frames]
    return None if min(rows) < 0 else np.array(rows)
