"""Raw samples and labels as a loader returns them, before they are cut into slices."""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec, Known, Labels, Sampling
from edgeveil.trainer.datasets.samples import applied, extremes, pieces, spread
from edgeveil.trainer.recipe.data_section import Data
from edgeveil.trainer.recipe.training_sections import Capture

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
    ``consent`` (N,) bool says whether a row may be shown in place of another. ``features`` name x's columns;
    ``table`` is how the cells of a row become them (``edge_runtime.manifest.columns``). ``test`` (N,) bool: the rows
    that the data themselves keep for the test.
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
    features: tuple[str, ...] | None = None
    test: np.ndarray | None = None
    table: Mapping[str, Any] | None = None

    @classmethod
    def from_arrays(
        cls,
        x: np.ndarray,
        known: Mapping[str, Known],
        of: tuple[str, str],
        kind: Literal["image", "vector", "series"],
        low: float | tuple[float, ...] | None = None,
        high: float | tuple[float, ...] | None = None,
        **further: Any,
    ) -> Readings:
        """Samples whose y and z are the two labels of ``known`` that ``of`` names."""
        y, z = (known[name] for name in of)
        return cls(x, y.values, z.values, y.names, z.names, kind, low, high, known=known, **further)


def check_attributes(target: str, sensitive: str, *, targets: Collection[str], others: Collection[str]) -> None:
    """Raise ``BadInput`` if the recipe's target is not among ``targets``, or its sensitive not among ``others``."""
    for key, name, known in (("target", target, targets), ("sensitive", sensitive, others)):
        if name not in known:
            expected = " or ".join(f'"{one}"' for one in known)
            raise BadInput(f'`data.{key}`: expected {expected}; got "{name}".')


def digit_readings(x: np.ndarray, digit: np.ndarray, *, target: str, sensitive: str, high: float) -> Readings:
    """Images of digits x (N, height, width) with two of their attributes. Raises ``BadInput``."""
    check_attributes(target, sensitive, targets=OF_DIGITS, others=OF_DIGITS)
    digit = digit.astype(np.int64)
    known = {name: Known(of(digit), names, ordered=name == "digit") for name, (names, of) in OF_DIGITS.items()}
    return Readings.from_arrays(x[..., None], known, (target, sensitive), "image", 0.0, high)


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


# The range of x: from the recipe, from the data set, or from training rows, which is no secret's place to be.
#
# A bound that comes from training rows says what the largest of them is: one person's own value. So it is rounded
# outward to two digits of the range's width, and training, export and card say that it ships. What is promised of a
# release (an epsilon) holds for readings clipped to the bounds: they must be public there, unless the recipe says
# otherwise.
#
# Measurements (floats) are standardised: their range ends ``SPREAD`` standard deviations from the mean, where the
# training rows reach that far, outliers left out. One outlier would otherwise press all others into a corner of the
# unit cube, where a network learns nothing and an int8 step is wider than what it should tell apart.


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


# What zipfile and numpy raise on an .npz that is damaged, encrypted or packed in a way they do not know.


UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    RuntimeError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)


def why(error: BaseException) -> str:
    """The reason in one clause. Numpy takes what is no .npz for a pickle, and would have the reader allow pickles."""
    return "it is no zip archive of arrays" if "pickle" in str(error) else str(error) or type(error).__name__


# Downloaded data files: found below EDGEVEIL_DATA, and used only with the right checksum.


VARIABLE = "EDGEVEIL_DATA"


class DataSet:
    """A data set that comes along, or that a package adds: one class, whose facts are literals.

    A kind of ``edgeveil.trainer.recipe.data_section.SETS``. ``files`` are paths below the folder that EDGEVEIL_DATA
    names, each with the SHA-256 of its bytes; ``where`` ends the sentence "Get it from ...".
    """

    names: ClassVar[tuple[str, ...]]
    licence: ClassVar[str]
    sensor: ClassVar[str | None] = None  # that it came from
    stream: ClassVar[bool] = False  # samples follow each other in time, many of each person
    series: ClassVar[bool] = False  # samples are windows of a sensor's steps
    where: ClassVar[str] = ""
    files: ClassVar[Mapping[str, str]] = {}
    downloaded: ClassVar[bool] = False  # when it is first used

    @classmethod
    def read(cls, data: Data, capture: Capture | None) -> Readings:
        """The samples with the y and z of ``[data]``; ``capture`` is the recipe's. Raises ``BadInput``.

        Of several attributes y and z are the first; the others are in ``also_sensitive``, and are ``known``.
        """
        raise NotImplementedError

    @classmethod
    def path(cls, name: str | None = None) -> Path:
        """A file of ``files`` (the first), once its checksum holds. Raises ``BadInput``."""
        name = next(iter(cls.files)) if name is None else name
        return checked_path(name, sha256=cls.files[name], source=cls.where)


def checked_path(name: str, *, sha256: str, source: str) -> Path:
    """The file ``name`` (like ``"ujiindoorloc/trainingData.csv.gz"``) below the folder that EDGEVEIL_DATA names.

    ``source`` ends the sentence "Get it from ..." of an error. Raises ``BadInput`` if the variable is not set, or the
    file is missing or another one.
    """
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise BadInput(
            f"The environment variable {VARIABLE} must name the folder that holds {name}; it is not set. "
            f"Get the file from {source}."
        )
    path = Path(folder).expanduser() / name
    try:
        checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise BadInput(
            f"Expected {name} in the folder of {VARIABLE}; got {error.strerror or error}. Get it from {source}."
        ) from None
    if checksum != sha256:
        raise BadInput(f"Expected {name} with SHA-256 {sha256}; got {checksum}. Get it again from {source}.")
    return path


# The checks of a user's own arrays.

FURTHER = "label_"  # before the name of a label that is neither y nor z: of an array, and of a role


DTYPES = ("uint8", "int8", "uint16", "int16", "int32", "int64", "float32", "float64")  # what a manifest can name
SMALLEST_SIDE = 4
FEWEST_STEPS = 8  # of a window of a series
LARGEST = 1e30  # of |x|: beyond it float32 has no room for a difference of two


def channels_first(shape: tuple[int, ...]) -> bool:
    """Whether pictures of this shape (N, channels, height, width) are turned round: cameras give channels last."""
    return len(shape) == 4 and shape[1] in (1, 3) and min(shape[2:]) >= SMALLEST_SIDE


def taken_for(shape: tuple[int, ...]) -> list[str]:
    """What pictures (N, a, b, c) are taken for, where their channels may come first; none where there is one way."""
    if len(shape) != 4 or channels_first(shape) or (shape[3] <= 4 < shape[1]):
        return []
    return [
        f"x, {' x '.join(map(str, shape[1:]))}, is taken for pictures of {shape[1]} x {shape[2]} pixels and {shape[3]} "
        "channels; where the channels are first, turn it round with numpy.moveaxis(x, 1, -1)"
    ]


def checked_samples(x: np.ndarray, path: Path) -> np.ndarray:
    """``x`` with a last axis for the channels of pictures. Raises ``BadInput`` for what no perturber takes."""
    if str(x.dtype) not in DTYPES:
        raise BadInput(f"{path}: `x` must be one of {', '.join(DTYPES)}; got {x.dtype}. Convert it with x.astype(...).")
    if x.ndim in (2, 3, 4) and len(x) == 0:
        raise BadInput(f"{path}: `x` has no rows; got shape {x.shape}. Save the samples again.")
    if x.ndim not in (2, 3, 4) or 0 in x.shape:
        raise BadInput(
            f"{path}: `x` must be (N, features), (N, height, width) or (N, height, width, channels); got {x.shape}."
        )
    if x.ndim == 3:
        x = applied(lambda some: some[..., None], x)
    if channels_first(x.shape):
        x = applied(lambda some: np.ascontiguousarray(np.moveaxis(some, 1, -1)), x)
    if x.ndim == 4 and min(x.shape[1:3]) < SMALLEST_SIDE:
        raise BadInput(
            f"{path}: images must have at least {SMALLEST_SIDE} x {SMALLEST_SIDE} pixels; got {x.shape[1]} x "
            f"{x.shape[2]}. Give vectors, x.reshape(len(x), -1), or say that they are a series: --series rate "
            f"and channels, `[data.series]` of a recipe.{''.join(f' Note: {note}.' for note in taken_for(x.shape))}"
        )
    if x.dtype.kind == "f":
        rows = np.concatenate(
            [at + np.flatnonzero(~np.isfinite(some).reshape(len(some), -1).all(axis=1)) for at, some in pieces(x)]
        )
        if len(rows):
            raise BadInput(
                f"{path}: `x` must be finite; {len(rows)} of {len(x)} rows have NaN or infinite values, "
                f"the first is row {rows[0]}. Fill or drop them."
            )
        if max(map(abs, extremes(x))) > LARGEST:
            raise BadInput(f"{path}: `x` must lie within ±{LARGEST:g}; it has larger values. Scale it.")
    return x


def checked_windows(x: np.ndarray, series: Sampling, path: Path) -> np.ndarray:
    """``x`` (N, steps, channels) float32. Raises ``BadInput`` for another number of channels than the recipe names."""
    channels = len(series.channels)
    if x.ndim != 3 or x.shape[2] != channels or x.shape[1] < FEWEST_STEPS:
        cure = "Turn it round with numpy.moveaxis, or correct them."
        if x.ndim == 2 and not x.shape[1] % channels:
            cure = f"Where each row is steps of {channels} channels: x.reshape(len(x), -1, {channels})."
        raise BadInput(
            f"{path}: `x` of a series must be (N, steps, {channels}), a channel for each of `data.series.channels`, "
            f"with at least {FEWEST_STEPS} steps; got {x.shape}. {cure}"
        )
    return checked_samples(x.reshape(len(x), -1), path).reshape(x.shape).astype(np.float32)


def class_numbers(labels: np.ndarray, name: str, rows: int, path: Path) -> tuple[np.ndarray, tuple[str, ...]]:
    """Class numbers (N,) and their names, sorted."""
    if labels.ndim != 1 or len(labels) != rows:
        raise BadInput(
            f"{path}: `{name}` must have one value for each of the {rows} rows of x; got shape {labels.shape}."
        )
    if labels.dtype.kind not in "iubUS":
        raise BadInput(
            f"{path}: `{name}` must be whole numbers or text, one class per row; got {labels.dtype}. Convert it with "
            f"{name}.astype(int), or cut it into classes with numpy.digitize."
        )
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8", "backslashreplace")  # two that differ stay two
    names, numbers = np.unique(labels, return_inverse=True)
    return numbers.astype(np.int64), tuple(str(value) for value in names)


def labelled_windows(
    x: np.ndarray, series: Sampling, labels: Mapping[str, tuple[str, np.ndarray]], path: Path, **further: Any
) -> Readings:
    """Windows (N, steps, channels) of a series, as ``labelled``. Raises ``BadInput``."""
    return labelled(checked_windows(x, series, path), "series", labels, path, series=series, **further)


def labelled(
    x: Any,
    kind: Literal["image", "vector", "series"],
    labels: Mapping[str, tuple[str, np.ndarray]],
    path: Path,
    **further: Any,
) -> Readings:
    """Samples (N, ...) with the classes (N,) of each role, under the name of their column. Raises ``BadInput``."""
    by_role = {role: class_numbers(values, name, len(x), path) for role, (name, values) in labels.items()}
    (y, y_names), (z, z_names) = by_role.pop("target"), by_role.pop("sensitive")
    known = {
        role.removeprefix(FURTHER): Known.from_values(*by_role.pop(role)) for role in [*by_role] if FURTHER in role
    }
    groups: dict[str, Any] = {role: numbers for role, (numbers, _) in by_role.items()}
    return Readings(x, y, z, y_names, z_names, kind, known=known, **groups, **further)
