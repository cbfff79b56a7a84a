"""A user's own arrays: an .npz file with x, y and z, and optionally the person and the recording of each row.

``x`` (N, height, width), (N, height, width, channels) or (N, features); (N, channels, height, width) is turned round;
``y`` and ``z`` (N,) whole numbers or text;
``labels`` (N, L), for cleaners: several numbers to keep or to hide of each row;
``label_NAME`` (N,) whole numbers (taken as ordered) or text: what else is known of each row, for the audit to attack;
``subject`` (or ``groups``, scikit-learn's name for it) and ``session`` (N,) whole numbers or text;
``consent`` (N,), 1 or true for a row that may be shown in place of another (a *donor*). The user is responsible for
the data's origin, licence and checks: nothing is downloaded.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Known, Labels, Sampling
from edgeveil.trainer.datasets.loaders.mulan import checked_labels
from edgeveil.trainer.datasets.readings import UNREADABLE, Readings, why
from edgeveil.trainer.recipe.messages import nearest

NEEDED = ("x", "y", "z")
OPTIONAL = ("subject", "groups", "session")
CONSENT = "consent"
LABELS = "labels"
KNOWN = re.compile(r"label_([a-z0-9][a-z0-9._-]{0,79})")  # the name is one of a recipe
DTYPES = ("uint8", "int8", "uint16", "int16", "int32", "int64", "float32", "float64")  # what a manifest can name
SMALLEST_SIDE = 4
FEWEST_STEPS = 8  # of a window of a series
LARGEST = 1e30  # of |x|: beyond it float32 has no room for a difference of two


def load(path: Path, *, wanted: int | None = None, series: Sampling | None = None) -> Readings:
    """Read and check a file; the first ``wanted`` of ``labels`` are kept. Raises ``BadInput``.

    With ``series`` x (N, steps, channels) are windows of it, and no pictures.
    """
    arrays = read_arrays(path)
    x = checked_samples(arrays["x"], path) if series is None else checked_windows(arrays["x"], series, path)
    y, y_names = class_numbers(arrays["y"], "y", len(x), path)
    z, z_names = class_numbers(arrays["z"], "z", len(x), path)
    if "subject" in arrays and "groups" in arrays:
        raise BadInput(f"{path}: `groups` is another name for `subject`; got both. Leave one out.")
    consent = _consent(arrays[CONSENT], len(x), path) if CONSENT in arrays else None
    groups = {name: class_numbers(arrays[name], name, len(x), path)[0] if name in arrays else None for name in OPTIONAL}
    subject = groups["subject"] if groups["groups"] is None else groups["groups"]
    kind = "series" if series is not None else "vector" if x.ndim == 2 else "image"
    labels = _numbers(arrays.get(LABELS), wanted, len(x), path)
    units = {"subject": subject, "session": groups["session"]}
    further = {"labels": labels, "consent": consent, "series": series, "known": known_labels(arrays, len(x), path)}
    return Readings(x, y, z, y_names, z_names, kind, **units, **further)  # type: ignore[arg-type]


def known_labels(arrays: Mapping[str, np.ndarray], rows: int, path: Path) -> dict[str, Known]:
    """The labels NAME of arrays ``label_NAME`` (rows,). Raises ``BadInput`` for one that is no class for each row."""
    found = {}
    for array, values in arrays.items():
        if match := KNOWN.fullmatch(array):
            numbers, names = class_numbers(values, array, rows, path)
            found[match[1]] = Known(numbers, names, ordered=values.dtype.kind in "iub")
    return found


def _numbers(labels: np.ndarray | None, wanted: int | None, rows: int, path: Path) -> Labels | None:
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


def read_arrays(path: Path, *, needed: tuple[str, ...] = NEEDED) -> dict[str, np.ndarray]:
    """The arrays of a file that are known by name. Raises ``BadInput`` for a file without those ``needed``."""
    if not path.is_file():
        raise BadInput(f"Expected data in {path}; there is no such file. Correct `data.source`.")
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise BadInput(f"{path} is a single array; expected an .npz file with x, y and z (numpy.savez).")
        with file:
            _check_names(file.files, path, needed)
            names = (*NEEDED, *OPTIONAL, LABELS, CONSENT)
            return {name: _array(file, name, path) for name in file.files if name in names or KNOWN.fullmatch(name)}
    except UNREADABLE as error:
        raise BadInput(f"{path} cannot be read as an .npz file ({why(error)}). Write it with numpy.savez.") from None


def _array(file: np.lib.npyio.NpzFile, name: str, path: Path) -> np.ndarray:
    try:
        return file[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise BadInput(
            f"{path}: `{name}` is an array of Python objects, which is never loaded: it could run code. Make it an "
            "array of numbers or text, such as numpy.array(list_of_equal_lengths, dtype=numpy.float32)."
        ) from None


def _check_names(names: list[str], path: Path, needed: tuple[str, ...]) -> None:
    for one in needed:
        if one not in names:
            raise BadInput(
                f"{path}: the array `{one}` is missing; there is {', '.join(sorted(names)) or 'none'}. Expected x, "
                "y, z and, if known, subject (or groups) and session."
            )
    for name in names:
        known = (*NEEDED, *OPTIONAL, LABELS, CONSENT)
        if name.startswith("label_") and not KNOWN.fullmatch(name):
            raise BadInput(f"{path}: expected `label_` and a name of a-z, 0-9, dot and dash; got `{name}`. Rename it.")
        near = nearest(name.lower(), (*OPTIONAL, CONSENT))
        # Ignoring a mistyped name would put rows of one recording into several slices.
        if name not in known and near:
            raise BadInput(f"{path}: `{name}` is not a known array{near}. Rename it.")


def header(path: Path) -> tuple[tuple[int, ...], str]:
    """The shape and dtype of ``x`` in a file, without reading its values. Raises ``BadInput``."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open("x.npy") as member:
            version = np.lib.format.read_magic(member)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(member)
            return shape, str(dtype)
    except UNREADABLE:
        x = read_arrays(path, needed=("x",))["x"]  # it says what is wrong
        return x.shape, str(x.dtype)


def channels_first(shape: tuple[int, ...]) -> bool:
    """Whether pictures of this shape (N, channels, height, width) are turned round: cameras give channels last."""
    return len(shape) == 4 and shape[1] in (1, 3) and min(shape[2:]) >= SMALLEST_SIDE


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
        x = x[..., None]
    if channels_first(x.shape):
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    if x.ndim == 4 and min(x.shape[1:3]) < SMALLEST_SIDE:
        raise BadInput(
            f"{path}: images must have at least {SMALLEST_SIDE} x {SMALLEST_SIDE} pixels; got {x.shape[1]} x "
            f"{x.shape[2]}. Give vectors, x.reshape(len(x), -1), or say that they are a series: --rate and --channels, "
            "`[data.series]` of a recipe."
        )
    if x.dtype.kind == "f":
        rows = np.flatnonzero(~np.isfinite(x).reshape(len(x), -1).all(axis=1))
        if len(rows):
            raise BadInput(
                f"{path}: `x` must be finite; {len(rows)} of {len(x)} rows have NaN or infinite values, "
                f"the first is row {rows[0]}. Fill or drop them."
            )
        if np.abs(x).max() > LARGEST:
            raise BadInput(f"{path}: `x` must lie within ±{LARGEST:g}; it has larger values. Scale it.")
    return x


def checked_windows(x: np.ndarray, series: Sampling, path: Path) -> np.ndarray:
    """``x`` (N, steps, channels) float32. Raises ``BadInput`` for another number of channels than the recipe names."""
    channels = len(series.channels)
    if x.ndim != 3 or x.shape[2] != channels or x.shape[1] < FEWEST_STEPS:
        raise BadInput(
            f"{path}: `x` of a series must be (N, steps, {channels}), a channel for each of `data.series.channels`, "
            f"with at least {FEWEST_STEPS} steps; got {x.shape}. Turn it round with numpy.moveaxis, or correct them."
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
        labels = np.char.decode(labels, "utf-8", "replace")
    names, numbers = np.unique(labels, return_inverse=True)
    return numbers.astype(np.int64), tuple(str(value) for value in names)
