"""Pairs from files: two .npz files, two folders of pictures, or two films."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.formats.plurals import counted
from edgeveil.edge_runtime.sources.images import SUFFIXES
from edgeveil.trainer.audit.before_after import pictures_read
from edgeveil.trainer.audit.before_after.label_files import Labels, of_rows, read_labels
from edgeveil.trainer.audit.before_after.matched import offset
from edgeveil.trainer.audit.before_after.pairs import Order, Pairs, paired
from edgeveil.trainer.datasets.loaders.npz import checked_samples, class_numbers, known_labels, read_arrays
from edgeveil.trainer.datasets.readings import Readings

GROUPS = ("subject", "groups", "session")


def read_pairs(before: Path, after: Path, *, labels: Path | None = None, order: Order = "test") -> Pairs:
    """Read what ``before`` and ``after`` name: both .npz, both folders, or both films. Raises ``BadInput``."""
    for option, path in (("--before", before), ("--after", after)):
        if not path.exists():
            raise BadInput(
                f"{option}: an .npz file, a folder of pictures or a film was expected at {path}; there is none."
            )
    kinds = [_kind(path) for path in (before, after)]
    if kinds[0] != kinds[1]:
        raise BadInput(
            f"Two of one kind were expected; got {kinds[0]} before and {kinds[1]} after. Give both as .npz, as folders "
            "of pictures or as films."
        )
    if order == "shuffled" and (kinds[0] == "a film" or labels is not None):
        raise BadInput(
            "Where rows are in another order, after must bring its own labels: y and z in its .npz file, or folders of "
            "classes. Leave out --labels; frames of a film cannot be shuffled."
        )
    read = {"an .npz file": _npz, "a folder": _folders, "a film": _films}[kinds[0]]
    return read(before, after, labels, order)


def _kind(path: Path) -> str:
    if path.is_dir():
        return "a folder"
    return "an .npz file" if path.suffix.lower() == ".npz" else "a film"


def _npz(before: Path, after: Path, labels: Path | None, order: Order) -> Pairs:
    first = read_arrays(before, needed=("x",) if labels else ("x", "y", "z"))
    second = read_arrays(after, needed=("x", "y", "z") if order == "shuffled" else ("x",))
    x, made = checked_samples(first["x"], before), checked_samples(second["x"], after)
    if labels is not None:
        given = read_labels(labels, key=None)
        of_rows(given, [str(i) for i in range(len(x))], labels, what="row")
        first = {"x": x, **given.columns}
    raw = _labelled(x, first, labels or before)
    if order == "shuffled":
        return Pairs(raw, _same_classes(_labelled(made, second, after), raw), order)
    for name in ("y", "z"):
        if name in second and len(made) == len(x):
            own, names = class_numbers(second[name], name, len(made), after)
            ours = np.array(getattr(raw, f"{name}_names"))[getattr(raw, name)]
            differ = int((np.array(names)[own] != ours).sum())
            if differ:
                raise BadInput(
                    f"`{name}` differs between {before} and {after} in {differ:,} of {len(x):,} rows: they are in "
                    "another order. Put them in one order, or give --rows shuffled to use each file's own labels."
                )
    return paired(raw, made, order=order)


def _labelled(x: np.ndarray, arrays: dict[str, np.ndarray], path: Path) -> Readings:
    (y, y_names), (z, z_names) = (class_numbers(arrays[name], name, len(x), path) for name in ("y", "z"))
    found = {name: class_numbers(arrays[name], name, len(x), path)[0] for name in GROUPS if name in arrays}
    if "subject" in found and "groups" in found:
        raise BadInput(f"{path}: `groups` is another name for `subject`; got both. Leave one out.")
    return Readings(
        x,
        y,
        z,
        y_names,
        z_names,
        "vector" if x.ndim == 2 else "image",
        subject=found.get("subject", found.get("groups")),
        session=found.get("session"),
        known=known_labels(arrays, len(x), path),
    )


def _same_classes(after: Readings, before: Readings) -> Readings:
    """``after`` with the class numbers of ``before``."""
    numbers: dict[str, Any] = {}
    for name in ("y", "z"):
        ours, theirs = getattr(before, f"{name}_names"), getattr(after, f"{name}_names")
        if set(ours) != set(theirs):
            raise BadInput(
                f"The classes of {name} must be the same before and after; {len(set(ours) ^ set(theirs))} are in one "
                "alone. Correct the labels, or leave those rows out."
            )
        numbers[name] = np.array([ours.index(one) for one in theirs])[getattr(after, name)]
    return Readings(
        after.x,
        numbers["y"],
        numbers["z"],
        before.y_names,
        before.z_names,
        after.kind,
        subject=after.subject,
        session=after.session,
    )


def _folders(before: Path, after: Path, labels: Path | None, order: Order) -> Pairs:
    first, second = _names(before), _names(after)
    if order == "shuffled":
        (x, said), (made, said_after) = pictures_read.pictures(first), pictures_read.pictures(second)
        raw = _of_classes(x, before, list(first))
        return Pairs(raw, _same_classes(_of_classes(made, after, list(second)), raw), order, (*said, *said_after))
    notes = []
    if set(first) != set(second):
        if len(first) != len(second):
            missing = sorted(set(first) ^ set(second))
            raise BadInput(
                f"A picture after for each picture before was expected; got {len(first):,} in {before} and "
                f"{len(second):,} in {after} ({missing[0]} is in one alone). Leave out of both what is missing in one."
            )
        notes.append("Names of pictures differ before and after: they are paired in the order of their names.")
        second = dict(zip(first, second.values(), strict=True))
    names = list(first)
    rows = np.arange(len(names))
    if labels is None:
        arrays = _classes(before, names)
    else:
        given = read_labels(labels, key="file")
        line = of_rows(_by_stem(given), names, labels, what="file")
        rows = np.flatnonzero(line >= 0)
        if len(rows) < len(names):
            notes.append(f"{len(names) - len(rows):,} of {len(names):,} pictures have no labels: they are left out.")
        arrays = {name: values[line[rows]] for name, values in given.columns.items()}
    (x, said), (made, said_after) = (
        pictures_read.pictures({names[i]: files[names[i]] for i in rows}) for files in (first, second)
    )
    return paired(
        _labelled(x, arrays, labels or before), made, order=order, notes=[*notes, *dict.fromkeys([*said, *said_after])]
    )


def _names(folder: Path) -> dict[str, Path]:
    """The pictures of a folder and of folders in it, by their path without the suffix, sorted; hidden ones left out."""
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        below = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in below.parts)
        if path.suffix.lower() in SUFFIXES and path.is_file() and not hidden:
            name = below.with_suffix("").as_posix()
            if name in found:
                raise BadInput(f"{folder} has two pictures {name}, of different suffixes. Remove one.")
            found[name] = path
    if not found:
        raise BadInput(f"Pictures ({', '.join(SUFFIXES)}) were expected in {folder}; there are none.")
    return found


def _by_stem(labels: Labels) -> Labels:
    """Keys without the suffix of a picture."""
    if labels.keys is None:
        return labels
    keys = (Path(key) for key in labels.keys)
    return Labels(
        labels.columns,
        tuple((key.with_suffix("") if key.suffix.lower() in SUFFIXES else key).as_posix() for key in keys),
    )


def _classes(folder: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """y and z of pictures DIR/y/z/name."""
    parts = [name.split("/") for name in names]
    if min(map(len, parts)) < 3:
        raise BadInput(
            f"{folder}: pictures in folders Y/Z/NAME were expected (Y the class to keep, Z the one to hide), or a file "
            "of labels: --labels labels.csv with the columns file, y, z and, if known, subject and session."
        )
    return {"y": np.array([part[0] for part in parts]), "z": np.array([part[1] for part in parts])}


def _of_classes(x: np.ndarray, folder: Path, names: Sequence[str]) -> Readings:
    return _labelled(x, _classes(folder, names), folder)


def _films(before: Path, after: Path, labels: Path | None, order: Order) -> Pairs:
    if labels is None:
        raise BadInput(
            "Films need a file of labels: --labels labels.csv with the columns frame (numbered from 0 in the film "
            "before), y, z and, if known, subject and session."
        )
    (x, said), (made, said_after) = pictures_read.film(before), pictures_read.film(after)
    notes = [*dict.fromkeys([*said, *said_after])]
    shift = offset(_grey(x), _grey(made))
    if shift:
        notes.append(
            f"The film after is {counted(abs(shift), 'frame')} {'late' if shift > 0 else 'early'} "
            "(by correlation): its frames were moved back into line."
        )
    given = read_labels(labels, key="frame")
    line = of_rows(given, [str(i) for i in range(len(x))], labels, what="frame")
    frames = np.flatnonzero(line >= 0)
    inside = (frames + shift >= 0) & (frames + shift < len(made))
    lost = len(frames) - int(inside.sum())
    if lost > max(abs(shift), 1) or not inside.any():
        raise BadInput(
            f"As many frames after as before were expected; got {len(x):,} before and {len(made):,} after (moved by "
            f"{shift}), and {lost:,} labelled frames have no counterpart. Write it again without dropping frames."
        )
    frames = frames[inside]
    arrays = {name: values[line[frames]] for name, values in given.columns.items()}
    if "subject" not in arrays and "session" not in arrays:
        breaks = np.diff(frames) > 1
        for name in ("y", "z"):
            breaks |= arrays[name][1:] != arrays[name][:-1]
        arrays["session"] = np.concatenate([[0], np.cumsum(breaks)])
        notes.append(
            f"Neither subject nor session is known: {int(breaks.sum()) + 1} runs of frames with the same y and z count "
            "as recordings."
        )
    return paired(_labelled(x[frames], arrays, labels), made[frames + shift], order=order, notes=notes)


def _grey(film: np.ndarray) -> np.ndarray:
    """Frames (n, 16, 16) in grey, small enough for correlations of all of them."""
    return pictures_read.scaled(film, 16).mean(axis=-1)
