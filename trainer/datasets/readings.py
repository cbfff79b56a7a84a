"""Raw samples and labels as a loader returns them, checked, before they are cut into slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Labels

Attribute = tuple[tuple[str, ...], Callable[[np.ndarray], np.ndarray]]

# What can be kept or hidden of a handwritten digit (section 6.1): class names, and digit -> class number.
OF_DIGITS: dict[str, Attribute] = {
    "parity": (("even", "odd"), lambda digit: digit % 2),
    "less-than-five": (("below-five", "five-or-more"), lambda digit: (digit >= 5).astype(np.int64)),
    "digit": (tuple("0123456789"), lambda digit: digit),
}


@dataclass(frozen=True)
class Readings:
    """x (N, *shape) in its own units, y and z (N,) as class numbers with their names, and what groups the rows.

    ``low`` and ``high`` are the ends of x's range where the data set itself defines them, else None.
    ``subject`` and ``session`` (N,) number who and which recording a row is from, where that is known.
    ``attributes`` are further known properties by name, float64 (N,): what else a perturber may keep, or leak.
    """

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    y_names: tuple[str, ...]
    z_names: tuple[str, ...]
    kind: Literal["image", "vector"]
    low: float | None = None
    high: float | None = None
    subject: np.ndarray | None = None
    session: np.ndarray | None = None
    attributes: Mapping[str, np.ndarray] = field(default_factory=dict)
    labels: Labels | None = None
    consent: np.ndarray | None = None  # (N,) bool: whether a row may be shown in the place of another


def digit_readings(x: np.ndarray, digit: np.ndarray, *, target: str, sensitive: str, high: float) -> Readings:
    """Pictures of digits x (N, height, width) with the two attributes asked for. Raises ``BadInput``."""
    labels = {}
    for key, name in (("target", target), ("sensitive", sensitive)):
        if name not in OF_DIGITS:
            raise BadInput(f'`data.{key}`: expected one of {", ".join(OF_DIGITS)}; got "{name}".')
        names, of = OF_DIGITS[name]
        labels[key] = names, of(digit.astype(np.int64))
    (y_names, y), (z_names, z) = labels["target"], labels["sensitive"]
    return Readings(x[..., None], y, z, y_names, z_names, "image", 0.0, high)


def without_range(readings: Readings, *, homogeneous: bool) -> Readings:
    """Vectors as a cleaner takes them: floats without a range and, ``homogeneous``, with a last feature that is 1."""
    if readings.kind != "vector":
        raise BadInput(
            f"This perturber takes feature vectors; x has the shape {readings.x.shape}. Flatten it: "
            "x.reshape(len(x), -1)."
        )
    x = readings.x if readings.x.dtype.kind == "f" else readings.x.astype(np.float32)
    if homogeneous:
        x = np.hstack([x, np.ones((len(x), 1), x.dtype)])
    return replace(readings, x=x)
