"""Raw samples and labels as a loader returns them, before they are cut into slices."""

from __future__ import annotations

import gzip
import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec, Known, Labels, Sampling
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

    @classmethod
    def of(
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
    return Readings.of(x[..., None], known, (target, sensitive), "image", 0.0, high)


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


# The range of x: from the recipe, from the data set, or from training rows, which is no secret's place to be.
#
# A bound that comes from training rows says what the largest of them is. What is promised of a release (an epsilon)
# holds for readings clipped to the bounds, and they ship: so they must be public there, unless the recipe says
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
        """The samples with the y and z of ``[data]``; ``capture`` is the recipe's. Raises ``BadInput``."""
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
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise BadInput(
            f"Expected {name} in the folder of {VARIABLE}; got {error.strerror or error}. Get it from {source}."
        ) from None
    if found != sha256:
        raise BadInput(f"Expected {name} with SHA-256 {sha256}; got {found}. Get it again from {source}.")
    return path


# A table of numbers and categories, coded by bounds and lists that are public: nothing is taken from its rows.


@dataclass(frozen=True)
class Coded:
    """``numbers`` (n, k) under the names of ``highest``, which bounds each; ``categories``: name -> texts (n,), one of
    ``values`` each; ``label`` (n,) is true or false."""

    numbers: np.ndarray
    highest: Mapping[str, float]
    categories: Mapping[str, np.ndarray]
    values: Mapping[str, Sequence[str]]
    label: np.ndarray

    def __len__(self) -> int:
        return len(self.label)

    def take(self, rows: np.ndarray) -> Coded:
        """Some of the rows."""
        categories = {name: texts[rows] for name, texts in self.categories.items()}
        return Coded(self.numbers[rows], self.highest, categories, self.values, self.label[rows])

    def number(self, name: str) -> np.ndarray:
        """One category as its place among its values, int64 (n,). Raises ``BadInput`` for a value that is no other."""
        values = np.array(sorted(self.values[name]))
        found = np.searchsorted(values, self.categories[name]).clip(max=len(values) - 1)
        strange = values[found] != self.categories[name]
        if strange.any():
            row = int(np.flatnonzero(strange)[0])
            raise BadInput(f"Expected one of {', '.join(values)} in {name}; row {row} has another value.")
        return found

    def unit_rows(self) -> np.ndarray:
        """Numbers over their bounds and categories one-hot, every row of Euclidean norm 1; float64 (n, d)."""
        scaled = np.minimum(self.numbers / np.array(list(self.highest.values())), 1)
        hot = [np.eye(len(values))[self.number(name)] for name, values in self.values.items()]
        rows = np.hstack([scaled, *hot])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# KDD Cup 1999: network connections of a simulated site, and which of them were attacks.
#
# S. Stolfo et al., from the DARPA 1998 evaluation of MIT Lincoln Laboratory; UCI KDD Archive. No licence is stated.


SOURCE = "the UCI KDD Archive (kddcup.data_10_percent)"
FILES = {"kddcup.data_10_percent.gz": "7bfaa8cef1350f72842018c32893e2fa4539d57efbb22f998eb74ecefc3da3b4"}
CATEGORIES = {"protocol": 1, "service": 2, "flag": 3}  # columns; the last is the label
SECONDS, BYTES, COUNTS, HOST_COUNTS = (0,), (4, 5), (22, 23), (31, 32)
RATES = (*range(24, 31), *range(33, 41))
# Public caps of log1p: a day of seconds or so, what a byte count can be, windows of 511 and 255 connections.
CAPS = {SECONDS: 6e4, BYTES: 2e9, COUNTS: 511.0, HOST_COUNTS: 255.0, RATES: 1.0}
OTHER_CAP = 1e4
# The values that occur in the published file: the site was simulated, and no other list of them is known.
VALUES = {
    "protocol": "icmp tcp udp",
    "service": "IRC X11 Z39_50 aol auth bgp courier csnet_ns ctf daytime discard domain domain_u echo eco_i ecr_i efs "
    "exec finger ftp ftp_data gopher harvest hostnames http http_2784 http_443 http_8001 imap4 iso_tsap klogin kshell "
    "ldap link login mtp name netbios_dgm netbios_ns netbios_ssn netstat nnsp nntp ntp_u other pm_dump pop_2 pop_3 "
    "printer private red_i remote_job rje shell smtp sql_net ssh sunrpc supdup systat telnet tftp_u tim_i time urh_i "
    "urp_i uucp uucp_path vmnet whois",
    "flag": "OTH REJ RSTO RSTOS0 RSTR S0 S1 S2 S3 SF SH",
}


def lines() -> list[str]:
    """All 494,021 rows as they were published, of which 145,586 are distinct.

    Raises ``BadInput`` where EDGEVEIL_DATA does not hold the published file.
    """
    ((file, sha256),) = FILES.items()
    packed = checked_path(f"kddcup99/{file}", sha256=sha256, source=SOURCE).read_bytes()
    return gzip.decompress(packed).decode().splitlines()


def coded(rows: Sequence[str]) -> Coded:
    """Some of ``lines``; numbers are log1p under public caps, and the label says that a connection was an attack."""
    fields = np.array([line.split(",") for line in rows])
    places = [at for at in range(fields.shape[1] - 1) if at not in CATEGORIES.values()]
    return Coded(
        numbers=np.log1p(fields[:, places].astype(np.float64)),
        highest={str(at): float(np.log1p(_cap(at))) for at in places},
        categories={name: fields[:, at] for name, at in CATEGORIES.items()},
        values={name: values.split() for name, values in VALUES.items()},
        label=fields[:, -1] != "normal.",
    )


def _cap(column: int) -> float:
    return next((cap for columns, cap in CAPS.items() if column in columns), OTHER_CAP)
