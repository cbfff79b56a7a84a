"""The range of x: from the recipe, from the data set, or from training rows, which is no secret's place to be.

A bound that comes from training rows says what the largest of them is: one person's own value. So it is rounded
outward to two digits of the range's width, and training, export and card say that it ships. What is promised of a
release (an epsilon) holds for readings clipped to the bounds: they must be public there, unless the recipe says
otherwise.

Measurements (floats) are standardised: their range ends ``SPREAD`` standard deviations from the mean, where the
training rows reach that far, outliers left out. One outlier would otherwise press all others into a corner of the
unit cube, where a network learns nothing and an int8 step is wider than the differences that matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.datasets.samples import applied, extremes, spread
from edgeveil.trainer.recipe.data_section import Data

FROM_TRAINING = "from-training"
SPREAD = 4.0
ROUNDS = 3
OUTLIERS = 0.01  # share of values, at most
FEW = 16  # different values, of a label
LABELS_SHOW = 10_000  # values inspected to decide whether a column is a label
MOST = 1_000_000  # values that are looked at
MOST_SPREAD = 16 * MOST  # of all features, of samples that stay on disk
Ends = tuple[float, ...]
Ranged = tuple[float | Ends, float | Ends, bool]  # low, high, and whether one of them is of training rows
OF_RELEASES = (
    "An epsilon holds for readings within public bounds, and these data come with none: set `data.low` and `data.high` "
    'to what the sensor can give, or write `data.bounds = "from-training"`, and the card says that extremes of '
    "training rows ship."
)
OF_PEOPLE = (
    "Under [private] nothing that ships may be taken from training rows, and these data come with no bounds: set "
    "`data.low` and `data.high` to what the sensor can give."
)
EXTREMES = "The bounds that readings are clipped to are extremes of training rows, and they ship with the bundle."


def without_range(readings: Readings, *, homogeneous: bool) -> Readings:
    """Vectors for a cleaner: floats without a range; with ``homogeneous``, a feature 1 is appended."""
    if readings.kind != "vector":
        raise BadInput(
            f"This perturber takes feature vectors; x has the shape {readings.x.shape}. Flatten it: "
            "x.reshape(len(x), -1)."
        )
    x = readings.x if readings.x.dtype.kind == "f" else applied(lambda some: some.astype(np.float32), readings.x)
    if homogeneous:
        x = applied(lambda some: np.hstack([some, np.ones((len(some), 1), some.dtype)]), x)
    return replace(readings, x=x)


def input_spec(
    readings: Readings, training: np.ndarray, data: Data, *, public: str | None = None, unbounded: bool = False
) -> InputSpec:
    """Kind, shape, type and range of x; no range where it is ``unbounded``. ``training`` are rows to fit on.

    ``public`` is why bounds must be given or come with the data, and is what ``BadInput`` says where they do not; None
    where they may be those of the training rows.
    """
    if unbounded:
        shape, dtype, named = readings.x.shape[1:], str(readings.x.dtype), not data.homogeneous
        if not named and readings.table is not None:
            raise BadInput("`data.homogeneous` appends a feature that no cell of a table has: leave out one.")
        names = readings.features if named else None
        return InputSpec("vector", shape, dtype, None, None, features=names, table=readings.table)
    from_outside = None if data.bounds == FROM_TRAINING else public
    ends: Callable[..., Ranged] = {"image": _of_images, "series": _of_series}.get(readings.kind, _of_vectors)
    low, high, extremes = ends(readings, training, data, from_outside)
    x = readings.x
    _check(low, high, x.dtype)
    names, table = readings.features, readings.table
    return InputSpec(readings.kind, x.shape[1:], str(x.dtype), low, high, readings.series, extremes, names, table)


def _of_vectors(readings: Readings, training: np.ndarray, data: Data, public: str | None) -> Ranged:
    x = readings.x
    features = x.shape[1]
    if data.low is not None or data.high is not None:
        return _each(data.low, "low", features), _each(data.high, "high", features), False
    if public is not None:
        if readings.low is None or readings.high is None:
            raise BadInput(public)
        return _each(readings.low, "low", features), _each(readings.high, "high", features), False
    # From the training slices alone: nothing is fitted on the test slice.
    lows, highs = (end.astype(np.float64) for end in extremes(x[training], axis=0))
    if x.dtype.kind == "f" and data.bounds != FROM_TRAINING:
        some = spread(x[training], MOST_SPREAD)
        lows, highs = np.array([_within(*one) for one in zip(some.T, lows, highs, strict=True)]).T
    lows, highs = _outward(lows, np.where(highs > lows, highs, lows + 1), x.dtype)  # a feature may never vary
    return tuple(lows.tolist()), tuple(highs.tolist()), True


def _outward(lows: np.ndarray, highs: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Both ends (features,) away from each other, to two digits of the distance between them."""
    digits = np.ones(len(lows)) - np.floor(np.log10(highs - lows))  # behind the point
    more, fewer = 10.0 ** np.maximum(digits, 0), 10.0 ** np.maximum(-digits, 0)
    ends = [whole(end * more / fewer) * fewer / more for whole, end in ((np.floor, lows), (np.ceil, highs))]
    if dtype.kind in "iu":
        ends = [np.clip(end, np.iinfo(dtype).min, np.iinfo(dtype).max) for end in ends]
    return ends[0], ends[1]


def _of_series(readings: Readings, training: np.ndarray, data: Data, public: str | None) -> Ranged:
    """Of every channel: from the recipe, else from the data set, else the extremes of training rows."""
    if data.low is None and data.high is None and isinstance(readings.low, tuple) and isinstance(readings.high, tuple):
        return readings.low, readings.high, False
    steps = readings.x[training].reshape(-1, readings.x.shape[2])
    return _of_vectors(replace(readings, x=steps), np.arange(len(steps)), data, public)


def _of_images(readings: Readings, training: np.ndarray, data: Data, public: str | None) -> Ranged:
    if isinstance(data.low, list) or isinstance(data.high, list):
        raise BadInput("`data.low` and `data.high`: expected one number each for pictures; got a list.")
    low = cast("float | None", readings.low if data.low is None else data.low)
    high = cast("float | None", readings.high if data.high is None else data.high)
    if low is not None and high is not None:
        return low, high, False
    if public is not None:
        raise BadInput(public)
    x = readings.x[training]
    lowest, most = map(float, extremes(x))
    least = min(0.0, lowest)
    if x.dtype.kind == "f" and data.bounds != FROM_TRAINING:
        low_end, most = _within(spread(x, MOST).reshape(-1), lowest, most)
        least = max(least, low_end)
    least, most = least if low is None else low, most if high is None else high
    if most > least:
        (outer_low,), (outer_high,) = _outward(np.array([least]), np.array([most]), x.dtype)
        least, most = least if low is not None else float(outer_low), most if high is not None else float(outer_high)
    return least, most, high is None or least != (low or 0)


def _within(x: np.ndarray, low: float, high: float) -> tuple[float, float]:
    """The ends of measurements x (n,) between ``low`` and ``high``, no further than ``SPREAD`` standard deviations from
    the mean.

    Both are taken again without what lies beyond (sigma clipping): an outlier widens its own limit. A column of few
    different values is a label, and one whose rare values are many has long tails: there nothing is taken out.
    """
    low, high = float(low), float(high)
    x = x[:: max(1, len(x) // MOST)].astype(np.float64)
    if len(np.unique(x[:LABELS_SHOW])) <= FEW:
        return low, high
    core = x
    for _ in range(ROUNDS):
        inside = core[np.abs(core - core.mean()) <= SPREAD * core.std()]
        if len(inside) < (1 - OUTLIERS) * len(x) or inside.std() == 0:
            break
        core = inside
    away = SPREAD * core.std()
    return max(float(core.min()), float(core.mean() - away)), min(float(core.max()), float(core.mean() + away))


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
