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

import zipfile
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Sampling
from edgeveil.trainer.datasets.readings import (
    CONSENT,
    FURTHER,
    KNOWN,
    LABELS,
    NEEDED,
    OPTIONAL,
    UNREADABLE,
    Readings,
    of_arrays,
    why,
)
from edgeveil.trainer.datasets.samples import member_header, read_member
from edgeveil.trainer.recipe.messages import nearest


def load(path: Path, *, wanted: int | None = None, series: Sampling | None = None) -> Readings:
    """Read and check a file; the first ``wanted`` of ``labels`` are kept. Raises ``BadInput``.

    With ``series`` x (N, steps, channels) are windows of it, and no pictures.
    """
    arrays = read_arrays(path, stored=series is None)
    return of_arrays(arrays, path, wanted=wanted, series=series)


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
            return {
                name: read_member(file, name, path, stored=stored and name == "x")
                for name in file.files
                if name in names or KNOWN.fullmatch(name)
            }
    except UNREADABLE as error:
        raise BadInput(f"{path} cannot be read as an .npz file ({why(error)}). Write it with numpy.savez.") from None


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
            shape, _, dtype = member_header(member)
            return shape, str(dtype)
    except UNREADABLE:
        x = read_arrays(path, needed=("x",))["x"]  # it says what is wrong
        return x.shape, str(x.dtype)
