"""Raw samples and labels as a loader returns them, before they are cut into slices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Known, Labels, Sampling

Attribute = tuple[tuple[str, ...], Callable[[np.ndarray], np.ndarray]]

# Attributes of a handwritten digit (section 6.1): class names, and digit -> class number.
OF_DIGITS: dict[str, Attribute] = {
    "parity": (("even", "odd"), lambda digit: digit % 2),
    "less-than-five": (("below-five", "five-or-more"), lambda digit: (digit >= 5).astype(np.int64)),
    "digit": (tuple("0123456789"), lambda digit: digit),
}


@dataclass(frozen=True)
class Readings:
    """x (N, *shape) in its own units, y and z (N,) as class numbers with their names, and the groups of the rows.

    ``low`` and ``high`` are the ends of x's range if the data set defines them (of a series one for each channel), else
    None. ``series`` says what the steps of a series are.
    ``subject`` and ``session`` (N,) number the person and the recording of a row, if these are known.
    ``attributes`` are further known properties by name, float64 (N,): what else a perturber may keep, or leak.
    ``known`` are all labels by name, those of y and z among them.
    ``consent`` (N,) bool says whether a row may be shown in place of another.
    """

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    y_names: tuple[str, ...]
    z_names: tuple[str, ...]
    kind: Literal["image", "vector", "series"]
    low: float | tuple[float, ...] | None = None
    high: float | tuple[float, ...] | None = None
    subject: np.ndarray | None = None
    session: np.ndarray | None = None
    attributes: Mapping[str, np.ndarray] = field(default_factory=dict)
    known: Mapping[str, Known] = field(default_factory=dict)
    labels: Labels | None = None
    consent: np.ndarray | None = None
    series: Sampling | None = None


def check_attributes(target: str, sensitive: str, *, targets: Collection[str], others: Collection[str]) -> None:
    """Raise ``BadInput`` if the recipe's target is not among ``targets``, or its sensitive not among ``others``."""
    for key, name, known in (("target", target, targets), ("sensitive", sensitive, others)):
        if name not in known:
            expected = " or ".join(f'"{one}"' for one in known)
            raise BadInput(f'`data.{key}`: expected {expected}; got "{name}".')


def digit_readings(x: np.ndarray, digit: np.ndarray, *, target: str, sensitive: str, high: float) -> Readings:
    """Images of digits x (N, height, width) with two of their attributes. Raises ``BadInput``."""
    check_attributes(target, sensitive, targets=OF_DIGITS, others=OF_DIGITS)
    (y_names, y_of), (z_names, z_of) = OF_DIGITS[target], OF_DIGITS[sensitive]
    digit = digit.astype(np.int64)
    known = {name: Known(of(digit), names, ordered=name == "digit") for name, (names, of) in OF_DIGITS.items()}
    return Readings(x[..., None], y_of(digit), z_of(digit), y_names, z_names, "image", 0.0, high, known=known)


def without_range(readings: Readings, *, homogeneous: bool) -> Readings:
    """Vectors for a cleaner: floats without a range; with ``homogeneous``, a feature 1 is appended."""
    if readings.kind != "vector":
        raise BadInput(
            f"This perturber takes feature vectors; x has the shape {readings.x.shape}. Flatten it: "
            "x.reshape(len(x), -1)."
        )
    x = readings.x if readings.x.dtype.kind == "f" else readings.x.astype(np.float32)
    if homogeneous:
        x = np.hstack([x, np.ones((len(x), 1), x.dtype)])
    return replace(readings, x=x)
