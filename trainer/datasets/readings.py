"""Raw samples and labels as a loader returns them, before they are cut into slices."""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Known, Labels, Sampling
from edgeveil.trainer.datasets.samples import applied, extremes, pieces
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.data_section import Data, Series
from edgeveil.trainer.recipe.training_sections import Capture

Kind = Literal["image", "vector", "series"]
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
    kind: Kind
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
        kind: Kind,
        low: float | tuple[float, ...] | None = None,
        high: float | tuple[float, ...] | None = None,
        **further: Any,
    ) -> Readings:
        """Samples whose y and z are the two labels of ``known`` that ``of`` names."""
        y, z = (known[name] for name in of)
        return cls(x, y.values, z.values, y.names, z.names, kind, low, high, known=known, **further)

    def named(self, target: str, sensitive: str) -> Readings:
        """The same with y and z among the known labels, under these names."""
        y, z = Known.from_values(self.y, self.y_names), Known.from_values(self.z, self.z_names)
        return replace(self, known={target: y, sensitive: z, **self.known})


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


# The checks of a user's own arrays, by the names that they have in an .npz file.

FURTHER = "label_"  # before the name of a label that is neither y nor z: of an array, and of a role
NEEDED = ("x", "y", "z")
OPTIONAL = ("subject", "groups", "session")
CONSENT = "consent"
LABELS = "labels"
KNOWN = re.compile(FURTHER + r"([a-z0-9][a-z0-9._-]{0,79})")  # the name is one of a recipe


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


def still_windows(x: np.ndarray) -> np.ndarray:
    """Which windows (n,) of x (n, steps, channels) do not move at all, and are dropped on a device."""
    return np.asarray((x == x[:, :1]).all(axis=(1, 2)))


def check_windows(x: np.ndarray, series: Series, path: Path) -> None:
    """Raise ``BadInput`` for windows (n, steps, channels) of a user that no device cuts or that do not move."""
    if series.hop is not None and series.hop > x.shape[1]:
        raise BadInput(
            f"{path}: its windows have {x.shape[1]} steps, and `data.series.hop` is {series.hop}: expected at most as "
            "many, or steps between two windows would be lost. Lower it."
        )
    still = np.flatnonzero(still_windows(x))
    if len(still):
        raise BadInput(
            f"{path}: {len(still)} of {len(x)} windows do not move, as where a sensor is stuck, and a device drops "
            f"such windows; the first is {still[0]}. Leave them out."
        )


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


def checked_features(x: np.ndarray) -> np.ndarray:
    """Feature vectors (n, features) as float64. Raises ``BadInput`` if they are not finite numbers."""
    x = np.asarray(x)
    if x.ndim != 2 or x.shape[0] == 0 or x.shape[1] == 0:
        raise BadInput(f"Feature vectors must be a matrix (samples, features), got shape {x.shape}.")
    if x.dtype.kind not in "fiub":
        raise BadInput(f"Features must be numbers, got dtype {x.dtype}; encode them first.")
    bad = ~np.isfinite(x).all(axis=1)
    if bad.any():
        raise BadInput(
            f"{bad.sum()} of {len(x)} feature vectors hold NaN or infinity (the first in row {np.argmax(bad)}, "
            "counted from 0); fill them in or leave them out."
        )
    return x.astype(np.float64)


def checked_labels(y: np.ndarray) -> np.ndarray:
    """Labels (n,) or (n, labels) as a float64 matrix. Raises ``BadInput`` if they are not finite numbers."""
    y = np.asarray(y)
    if y.dtype.kind not in "fiub":
        raise BadInput(f"Labels must be numbers, got dtype {y.dtype}; encode classes as numbers, such as -1 and 1.")
    if y.ndim not in (1, 2) or y.size == 0:
        raise BadInput(f"Labels must have shape (samples,) or (samples, labels), got {y.shape}.")
    if not np.isfinite(y).all():
        raise BadInput("Labels hold NaN or infinity; leave those samples out.")
    return y.reshape(len(y), -1).astype(np.float64)


def of_arrays(
    arrays: Mapping[str, np.ndarray], path: Path, *, wanted: int | None = None, series: Sampling | None = None
) -> Readings:
    """Samples ``x`` with the labels in arrays of the names that an .npz file has; ``path`` is for messages.

    The first ``wanted`` of ``labels`` are kept. With ``series`` x (N, steps, channels) are windows of it. Raises
    ``BadInput``.
    """
    for note in taken_for(arrays["x"].shape) if series is None else ():
        say(f"note: {path}: {note}")
    x = checked_samples(arrays["x"], path) if series is None else checked_windows(arrays["x"], series, path)
    return labelled_arrays(x, arrays, path, wanted=wanted, series=series)


def labelled_arrays(
    x: np.ndarray,
    arrays: Mapping[str, np.ndarray],
    path: Path,
    *,
    wanted: int | None = None,
    series: Sampling | None = None,
) -> Readings:
    """``of_arrays`` of samples x (N, ...) that are checked."""
    y, y_names = class_numbers(arrays["y"], "y", len(x), path)
    z, z_names = class_numbers(arrays["z"], "z", len(x), path)
    if "subject" in arrays and "groups" in arrays:
        raise BadInput(f"{path}: `groups` is another name for `subject`; got both. Leave one out.")
    consent = _consent(arrays[CONSENT], len(x), path) if CONSENT in arrays else None
    groups: dict[str, Any] = {
        "session" if name == "session" else "subject": class_numbers(arrays[name], name, len(x), path)[0]
        for name in OPTIONAL
        if name in arrays
    }
    kind: Kind = "series" if series is not None else "vector" if x.ndim == 2 else "image"
    labels = _labels(arrays.get(LABELS), wanted, len(x), path)
    known = {}
    for array, values in arrays.items():
        if match := KNOWN.fullmatch(array):
            numbers, names = class_numbers(values, array, len(x), path)
            known[match[1]] = Known(numbers, names, ordered=values.dtype.kind in "iub")
    return Readings(
        x, y, z, y_names, z_names, kind, **groups, labels=labels, consent=consent, series=series, known=known
    )


def _labels(labels: np.ndarray | None, wanted: int | None, rows: int, path: Path) -> Labels | None:
    """The numeric labels of a file; None if the recipe wants none."""
    if wanted is None:
        return None
    if labels is None:
        raise BadInput(f"{path}: `data.wanted` counts columns of an array `labels`, which is not there. Add it.")
    if labels.ndim != 2 or len(labels) != rows:
        raise BadInput(f"{path}: `labels` must have a row for each of the {rows} rows of x; got shape {labels.shape}.")
    values = checked_labels(labels)
    if not 1 <= wanted < values.shape[1]:
        raise BadInput(f"{path}: `labels` has {values.shape[1]} columns: 1 to {values.shape[1] - 1} can be wanted.")
    return Labels(values, wanted)


def _consent(consent: np.ndarray, rows: int, path: Path) -> np.ndarray:
    """Which rows may be donors, bool (N,)."""
    if consent.shape != (rows,) or consent.dtype.kind not in "biu" or not np.isin(consent, (0, 1)).all():
        raise BadInput(
            f"{path}: `{CONSENT}` must be 1 (true) or 0 (false) for each of the {rows} rows of x, whether its record "
            f"may be shown; got {consent.dtype} of shape {consent.shape}."
        )
    return consent.astype(bool)


def labelled_windows(
    x: np.ndarray, series: Sampling, labels: Mapping[str, tuple[str, np.ndarray]], path: Path, **further: Any
) -> Readings:
    """Windows (N, steps, channels) of a series, as ``labelled``. Raises ``BadInput``."""
    return labelled(checked_windows(x, series, path), "series", labels, path, series=series, **further)


def labelled(x: Any, kind: Kind, labels: Mapping[str, tuple[str, np.ndarray]], path: Path, **further: Any) -> Readings:
    """Samples (N, ...) with the classes (N,) of each role, under the name of their column. Raises ``BadInput``."""
    by_role = {role: class_numbers(values, name, len(x), path) for role, (name, values) in labels.items()}
    (y, y_names), (z, z_names) = by_role.pop("target"), by_role.pop("sensitive")
    known = {
        role.removeprefix(FURTHER): Known.from_values(*by_role.pop(role)) for role in [*by_role] if FURTHER in role
    }
    groups: dict[str, Any] = {role: numbers for role, (numbers, _) in by_role.items()}
    return Readings(x, y, z, y_names, z_names, kind, known=known, **groups, **further)
