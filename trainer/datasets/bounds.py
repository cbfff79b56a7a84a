"""The range of x: from the recipe, from the data set, or from training rows, which is no secret's place to be.

A bound that comes from training rows says what the largest of them is. What is promised of a release (an epsilon) holds
for readings clipped to the bounds, and they ship: so they must be public there, unless the recipe says otherwise.

Measurements (floats) are standardised: their range ends ``SPREAD`` standard deviations from the mean, where the
training rows reach that far, outliers left out. One outlier would otherwise press all others into a corner of the unit
cube, where a network learns nothing and an int8 step is wider than what it should tell apart.
"""

from __future__ import annotations

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.recipe.schema import Data

FROM_TRAINING = "from-training"
SPREAD = 4.0
ROUNDS = 3
OUTLIERS = 0.01  # share of values, at most
FEW = 16  # different values, of a label
LABELS_SHOW = 10_000  # values by which a label is told
MOST = 1_000_000  # values that are looked at
Ends = tuple[float, ...]


def input_spec(readings: Readings, training: np.ndarray, data: Data, *, public: bool) -> InputSpec:
    """Kind, shape, type and range of x. ``training`` are the rows that may be fitted on.

    ``public``: an epsilon is promised, so bounds must be given or come with the data. Raises ``BadInput``.
    """
    ends = _of_vectors if readings.kind == "vector" else _of_images
    low, high = ends(readings, training, data, public and data.bounds != FROM_TRAINING)
    x = readings.x
    _check(low, high, x.dtype)
    return InputSpec(readings.kind, x.shape[1:], str(x.dtype), low, high)


def _of_vectors(readings: Readings, training: np.ndarray, data: Data, public: bool) -> tuple[Ends, Ends]:
    x = readings.x
    features = x.shape[1]
    if data.low is not None or data.high is not None:
        return _each(data.low, "low", features), _each(data.high, "high", features)
    if public:
        if readings.low is None or readings.high is None:
            raise BadInput(_PUBLIC)
        return (readings.low,) * features, (readings.high,) * features
    # From the training slices alone: nothing is fitted on the test slice.
    lows, highs = x[training].min(axis=0).astype(np.float64), x[training].max(axis=0).astype(np.float64)
    if x.dtype.kind == "f" and data.bounds != FROM_TRAINING:
        lows, highs = np.array([_within(column) for column in x[training].T]).T
    highs = np.where(highs > lows, highs, lows + 1)  # a feature that never varies
    return tuple(lows.tolist()), tuple(highs.tolist())


def _of_images(readings: Readings, training: np.ndarray, data: Data, public: bool) -> tuple[float, float]:
    if isinstance(data.low, list) or isinstance(data.high, list):
        raise BadInput("`data.low` and `data.high`: expected one number each for pictures; got a list.")
    low = readings.low if data.low is None else data.low
    high = readings.high if data.high is None else data.high
    if public and (low is None or high is None):
        raise BadInput(_PUBLIC)
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


_PUBLIC = (
    "An epsilon holds for readings within public bounds, and these data come with none: set `data.low` and `data.high` "
    'to what the sensor can give, or write `data.bounds = "from-training"`, and the card says that extremes of '
    "training rows ship."
)


def _each(end: float | list[float] | None, name: str, features: int) -> Ends:
    """One value for each feature. Raises ``BadInput`` where it is missing, or a list of another length."""
    if end is None:
        raise BadInput(f"`data.{name}` is missing; expected with the other end: a number, or one for each feature.")
    if isinstance(end, list) and len(end) != features:
        raise BadInput(f"`data.{name}`: expected one number for each of {features} features; got {len(end)}.")
    return tuple(float(one) for one in (end if isinstance(end, list) else [end] * features))


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
