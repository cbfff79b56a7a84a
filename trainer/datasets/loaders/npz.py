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
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Known, Labels, Sampling
from edgeveil.trainer.datasets.loaders.mulan import checked_labels
from edgeveil.trainer.datasets.readings import (
    FURTHER,
    UNREADABLE,
    Readings,
    checked_samples,
    checked_windows,
    class_numbers,
    taken_for,
    why,
)
from edgeveil.trainer.datasets.samples import PIECE, Stored, converted, fingerprint, is_large
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.messages import nearest

NEEDED = ("x", "y", "z")
OPTIONAL = ("subject", "groups", "session")
CONSENT = "consent"
LABELS = "labels"
KNOWN = re.compile(FURTHER + r"([a-z0-9][a-z0-9._-]{0,79})")  # the name is one of a recipe


def load(path: Path, *, wanted: int | None = None, series: Sampling | None = None) -> Readings:
    """Read and check a file; the first ``wanted`` of ``labels`` are kept. Raises ``BadInput``.

    With ``series`` x (N, steps, channels) are windows of it, and no pictures.
    """
    arrays = read_arrays(path, stored=series is None)
    for note in taken_for(arrays["x"].shape) if series is None else ():
        say(f"note: {path}: {note}")
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
    by_name = {}
    for array, values in arrays.items():
        if match := KNOWN.fullmatch(array):
            numbers, names = class_numbers(values, array, rows, path)
            by_name[match[1]] = Known(numbers, names, ordered=values.dtype.kind in "iub")
    return by_name


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


def read_arrays(path: Path, *, needed: tuple[str, ...] = NEEDED, stored: bool = False) -> dict[str, np.ndarray]:
    """The arrays of a file that are known by name. Raises ``BadInput`` for a file without those ``needed``.

    ``stored``: x is ``samples.Stored`` where it is large.
    """
    if not path.is_file():
        raise BadInput(f"Expected data in {path}; there is no such file. Correct `data.source`.")
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise BadInput(f"{path} is a single array; expected an .npz file with x, y and z (numpy.savez).")
        with file:
            _check_names(file.files, path, needed)
            names = (*NEEDED, *OPTIONAL, LABELS, CONSENT)
            large = (
                {"x": x}
                if stored and "x" in file.files and (x := _stored(cast(zipfile.ZipFile, file.zip), path)) is not None
                else {}
            )
            return {
                name: large[name] if name in large else _array(file, name, path)
                for name in file.files
                if name in names or KNOWN.fullmatch(name)
            }
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


def _stored(archive: zipfile.ZipFile, path: Path) -> np.ndarray | None:
    """x where it is large, from its place in the file, or where it is compressed from a copy; else None."""
    about = archive.getinfo("x.npy")
    with archive.open(about) as member:
        shape, by_column, dtype = _header(member)
        begins = member.tell()
    if not is_large(shape, dtype) or by_column or dtype.hasobject:
        return None
    if about.compress_type != zipfile.ZIP_STORED or about.flag_bits & 1:
        facts = (about.CRC, about.file_size)
        return cast(np.ndarray, converted(path, fingerprint(path, facts), shape, dtype, lambda: _blocks(path))[0])
    with path.open("rb") as file:
        file.seek(about.header_offset + 26)  # the lengths of the name and of what follows it
        name, extra = struct.unpack("<HH", file.read(4))
    return cast(np.ndarray, Stored(path, about.header_offset + 30 + name + extra + begins, shape, dtype))


def _blocks(path: Path) -> Iterator[tuple[int, np.ndarray]]:
    """x of a file a block at a time, each with its first row."""
    with zipfile.ZipFile(path) as archive, archive.open("x.npy") as member:
        (rows, *each), _, dtype = _header(member)
        size = dtype.itemsize * int(np.prod(each, dtype=np.int64))
        step = max(1, PIECE // size)
        for first in range(0, rows, step):
            data = member.read(size * min(step, rows - first))
            yield first, np.frombuffer(data, dtype).reshape(-1, *each)


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(member)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return cast("tuple[tuple[int, ...], bool, np.dtype]", read(member))


def _check_names(names: list[str], path: Path, needed: tuple[str, ...]) -> None:
    for one in needed:
        if one not in names:
            raise BadInput(
                f"{path}: the array `{one}` is missing; there is {', '.join(sorted(names)) or 'none'}. Expected x, "
                "y, z and, if known, subject (or groups) and session."
            )
    for name in names:
        known = (*NEEDED, *OPTIONAL, LABELS, CONSENT)
        if name.startswith(FURTHER) and not KNOWN.fullmatch(name):
            raise BadInput(f"{path}: expected `label_` and a name of a-z, 0-9, dot and dash; got `{name}`. Rename it.")
        near = nearest(name.lower(), (*OPTIONAL, CONSENT))
        # Ignoring a mistyped name would put rows of one recording into several slices.
        if name not in known and near:
            raise BadInput(f"{path}: `{name}` is not a known array{near}. Rename it.")


def header(path: Path) -> tuple[tuple[int, ...], str]:
    """The shape and dtype of ``x`` in a file, without reading its values. Raises ``BadInput``."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open("x.npy") as member:
            shape, _, dtype = _header(member)
            return shape, str(dtype)
    except UNREADABLE:
        x = read_arrays(path, needed=("x",))["x"]  # it says what is wrong
        return x.shape, str(x.dtype)
