"""The range of x: from the recipe, from the data set, or from training rows, which is no secret's place to be.

A bound that comes from training rows says what the largest of them is. What is promised of a release (an epsilon) holds
for readings clipped to the bounds, and they ship: so they must be public there, unless the recipe says otherwise.

Measurements (floats) are standardised: their range ends ``SPREAD`` standard deviations from the mean, where the
training rows reach that far, outliers left out. One outlier would otherwise press all others into a corner of the unit
cube, where a network learns nothing and an int8 step is wider than what it should tell apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.recipe.data_section import Data

FROM_TRAINING = "from-training"
SPREAD = 4.0
ROUNDS = 3
OUTLIERS = 0.01  # share of values, at most
FEW = 16  # different values, of a label
LABELS_SHOW = 10_000  # values by which a label is told
MOST = 1_000_000  # values that are looked at
Ends = tuple[float, ...]
OF_RELEASES = (
    "An epsilon holds for readings within public bounds, and these data come with none: set `data.low` and `data.high` "
    'to what the sensor can give, or write `data.bounds = "from-training"`, and the card says that extremes of '
    "training rows ship."
)
OF_PEOPLE = (
    "Under [private] nothing that ships may be taken from training rows, and these data come with no bounds: set "
    "`data.low` and `data.high` to what the sensor can give."
)


def input_spec(readings: Readings, training: np.ndarray, data: Data, *, public: str | None = None) -> InputSpec:
    """Kind, shape, type and range of x. ``training`` are the rows that may be fitted on.

    ``public`` is why bounds must be given or come with the data, and is what ``BadInput`` says where they do not; None
    where they may be those of the training rows.
    """
    from_outside = None if data.bounds == FROM_TRAINING else public
    low: float | Ends
    high: float | Ends
    if readings.kind == "image":
        low, high = _of_images(readings, training, data, from_outside)
    else:
        ends = _of_series if readings.kind == "series" else _of_vectors
        low, high = ends(readings, training, data, from_outside)
    x = readings.x
    _check(low, high, x.dtype)
    return InputSpec(readings.kind, x.shape[1:], str(x.dtype), low, high, readings.series)


def _of_vectors(readings: Readings, training: np.ndarray, data: Data, public: str | None) -> tuple[Ends, Ends]:
    x = readings.x
    features = x.shape[1]
    if data.low is not None or data.high is not None:
        return _each(data.low, "low", features), _each(data.high, "high", features)
    if public is not None:
        if readings.low is None or readings.high is None:
            raise BadInput(public)
        return _each(readings.low, "low", features), _each(readings.high, "high", features)
    # From the training slices alone: nothing is fitted on the test slice.
    lows, highs = x[training].min(axis=0).astype(np.float64), x[training].max(axis=0).astype(np.float64)
    if x.dtype.kind == "f" and data.bounds != FROM_TRAINING:
        lows, highs = np.array([_within(column) for column in x[training].T]).T
    highs = np.where(highs > lows, highs, lows + 1)  # a feature that never varies
    return tuple(lows.tolist()), tuple(highs.tolist())


def _of_series(readings: Readings, training: np.ndarray, data: Data, public: str | None) -> tuple[Ends, Ends]:
    """Of every channel: from the recipe, else from the data set, else the extremes of training rows."""
    if data.low is None and data.high is None and isinstance(readings.low, tuple) and isinstance(readings.high, tuple):
        return readings.low, readings.high
    steps = readings.x[training].reshape(-1, readings.x.shape[2])
    return _of_vectors(replace(readings, x=steps), np.arange(len(steps)), data, public)


def _of_images(readings: Readings, training: np.ndarray, data: Data, public: str | None) -> tuple[float, float]:
    if isinstance(data.low, list) or isinstance(data.high, list):
        raise BadInput("`data.low` and `data.high`: expected one number each for pictures; got a list.")
    low = cast("float | None", readings.low if data.low is None else data.low)
    high = cast("float | None", readings.high if data.high is None else data.high)
    if public is not None and (low is None or high is None):
        raise BadInput(public)
    x = readings.x[training]
    least, most = float(min(0, x.min())), float(x.max())
    if x.dtype.kind == "f" and data.bounds != FROM_TRAINING:
        low_end, most = _within(x.reshape(-1))
        least = max(least, low_end)
    return least if low is None else low, most if high is None else high


def _within(x: np.ndarray) -> tuple[float, float]:
    """The ends of measurements x (n,), no further than ``SPREAD`` standard deviations from the mean.

    Both are taken again without what lies beyond (sigma clipping): an outlier widens its own limit. A column of few
    different values is a label, and one whose rare values are many has long tails: there nothing is taken out.
    """
    low, high = float(x.min()), float(x.max())
    x = x[:: max(1, len(x) // MOST)].astype(np.float64)
    if len(np.unique(x[:LABELS_SHOW])) <= FEW:
        return low, high
    kept = x
    for _ in range(ROUNDS):
        inside = kept[np.abs(kept - kept.mean()) <= SPREAD * kept.std()]
        if len(inside) < (1 - OUTLIERS) * len(x) or inside.std() == 0:
            break
        kept = inside
    away = SPREAD * kept.std()
    return max(float(kept.min()), float(kept.mean() - away)), min(float(kept.max()), float(kept.mean() + away))


def _each(end: float | list[float] | Ends | None, name: str, features: int) -> Ends:
    """One value for each feature, or channel. Raises ``BadInput`` where it is missing, or a list of another length."""
    if end is None:
        raise BadInput(f"`data.{name}` is missing; expected with the other end: a number, or one for each feature.")
    if isinstance(end, (list, tuple)) and len(end) != features:
        raise BadInput(f"`data.{name}`: expected one number for each of {features} features; got {len(end)}.")
    return tuple(float(one) for one in (end if isinstance(end, (list, tuple)) else [end] * features))


def _check(low: float | Ends, high: float | Ends, dtype: np.dtype) -> None:
    lows, highs = np.atleast_1d(low), np.atleast_1d(high)
    if not (highs > lows).all():
        worst = int(np.argmin(highs > lows))
        of = f" of feature {worst}" if len(lows) > 1 else ""
        raise BadInput(
            f"`data.high` must be above `data.low`; got {highs[worst]:g} and {lows[worst]:g}{of}. Set them to the "
            "range of x."
        )
    if dtype.kind in "iu" and not (np.iinfo(dtype).min <= lows.min() and highs.max() <= np.iinfo(dtype).max):
        raise BadInput(
            f"`data.low` and `data.high` must be values that {dtype} can hold; got {lows.min():g} and {highs.max():g}."
        )
