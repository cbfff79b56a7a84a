"""Labels of samples in a CSV file: columns y and z, and optionally file or frame, subject, session and label_NAME."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.late_imports import film_name, opencv
from edgeveil.edge_runtime.sources.images import SUFFIXES, read_picture
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.audit.pairs import Order, Pairs, offset, paired
from edgeveil.trainer.datasets.loaders.npz import read_arrays
from edgeveil.trainer.datasets.readings import (
    CONSENT,
    KNOWN,
    SMALLEST_SIDE,
    Readings,
    checked_samples,
    class_numbers,
    labelled_arrays,
)

NEEDED, OPTIONAL = ("y", "z"), ("subject", "session")


@dataclass(frozen=True)
class Labels:
    """Columns of text by name, (n,) each, and ``keys``: the file or frame of each row, if the file has them."""

    columns: dict[str, np.ndarray]
    keys: tuple[str, ...] | None

    def __len__(self) -> int:
        return len(self.columns["y"])


def read_labels(path: Path, *, key: Literal["file", "frame"] | None) -> Labels:
    """Read a file with a line of names first. ``key`` is the name of the column with the keys. Raises ``BadInput``."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            names = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = names
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(
            f"A CSV file of labels was expected in {path}, which cannot be read ({reason(error)})."
        ) from None
    for needed in NEEDED:
        if needed not in names:
            raise BadInput(
                f"{path}: the column `{needed}` is missing; there is {', '.join(names) or 'none'}. The first line "
                f"names the columns: {f'{key}, ' if key else ''}y, z and, if known, subject and session."
            )
    if not rows:
        raise BadInput(f"{path} has no line of labels below its first.")
    wanted = [*NEEDED, *(name for name in names if name in OPTIONAL or KNOWN.fullmatch(name))]
    for number, row in enumerate(rows, 2):
        empty = [name for name in wanted if not (row[name] or "").strip()]
        if empty:
            raise BadInput(f"{path}, line {number}: `{empty[0]}` is empty. Fill it, or remove the line.")
    keys = None
    if key is not None and key in names:
        keys = tuple((row[key] or "").strip() for row in rows)
        if len(set(keys)) < len(keys):
            twice = next(one for one in keys if keys.count(one) > 1)
            raise BadInput(f"{path}: {key} {twice} has two lines of labels. Remove one.")
    return Labels({name: _column([row[name].strip() for row in rows], name) for name in wanted}, keys)


def _column(values: list[str], name: str) -> np.ndarray:
    """Text; or whole numbers, where all values of a further label are such: then they have an order."""
    if KNOWN.fullmatch(name) and all(value.removeprefix("-").isdecimal() for value in values):
        return np.array(values, np.int64)
    return np.array(values)


def of_rows(labels: Labels, names: Sequence[str], path: Path, *, what: str) -> np.ndarray:
    """The line of ``labels`` (n,) of each of ``names``, -1 where it has none. Raises ``BadInput`` for unknown ones.

    Without a column of keys the lines must be as many as the names, in their order.
    """
    if labels.keys is None:
        if len(labels) != len(names):
            raise BadInput(
                f"{path} has labels of {len(labels):,} {what}s and there are {len(names):,}. Give one line for each, "
                f"or name the {what} of each line in a column `{what}`."
            )
        return np.arange(len(names))
    place = {name: i for i, name in enumerate(names)}
    unknown = [key for key in labels.keys if key not in place]
    if unknown:
        raise BadInput(f"{path} has labels of the {what} {unknown[0]}, which is not there ({len(unknown)} such lines).")
    line = np.full(len(names), -1)
    line[[place[key] for key in labels.keys]] = np.arange(len(labels))
    return line


# Pictures and films as arrays, made small enough for adversaries to learn from.

SIDE = 64  # pixels of the longer side
MOST_FRAMES = 20_000


def pictures(files: Mapping[str, Path]) -> tuple[np.ndarray, list[str]]:
    """Pictures (n, height, width, channels) of one size, and sentences on changes. Raises ``BadInput``."""
    images = []
    for path in files.values():
        picture = read_picture(path)
        if picture is None:
            raise BadInput(f"{path} cannot be read as a picture. Write it again, or remove it from both folders.")
        images.append(_channels(picture))
    if len({picture.dtype for picture in images}) > 1:
        raise BadInput("Pictures of one depth were expected; got 8 and 16 bits in one folder. Convert them to one.")
    colours = max(picture.shape[2] for picture in images)
    images = [np.repeat(one, colours, axis=2) if one.shape[2] < colours else one for one in images]
    sizes = {picture.shape[:2] for picture in images}
    height, width = next(iter(sizes)) if len(sizes) == 1 else (SIDE, SIDE)
    to = _smaller(height, width)
    notes = [] if sizes == {to} else [_note("Pictures", sizes, to)]
    return np.stack([_resized(one, to) for one in images]), notes


def film(path: Path) -> tuple[np.ndarray, list[str]]:
    """All frames (n, height, width, channels) of a film, uint8. Raises ``BadInput`` where it cannot be read."""
    cv2 = opencv()
    opened = cv2.VideoCapture(film_name(path))
    frames: list[np.ndarray] = []
    size = to = (0, 0)
    while opened.isOpened():
        good, picture = opened.read()
        if not good:
            break
        if len(frames) == MOST_FRAMES:
            raise BadInput(f"{path} has more than {MOST_FRAMES:,} frames. Cut both films at the same frame.")
        if not frames:
            size, to = picture.shape[:2], _smaller(*picture.shape[:2])
        frames.append(_resized(_channels(picture), to))
    opened.release()
    if not frames:
        raise BadInput(f"A film that OpenCV can read was expected at {path}; it finds no picture in it.")
    return np.stack(frames), [] if size == to else [_note("Frames", {size}, to)]


def scaled(x: np.ndarray, side: int) -> np.ndarray:
    """Pictures (n, height, width, channels) as (n, side, side, channels), float32, by area averaging."""
    cv2 = opencv()
    resized = [cv2.resize(one.astype(np.float32), (side, side), interpolation=cv2.INTER_AREA) for one in x]
    return np.stack(resized).reshape(len(x), side, side, x.shape[-1])


def _channels(picture: np.ndarray) -> np.ndarray:
    """(height, width, channels) in the order red, green, blue, without transparency."""
    if picture.ndim == 2:
        return picture[..., None]
    return picture[..., :3][..., ::-1]


def _smaller(height: int, width: int) -> tuple[int, int]:
    """The size with a longer side of at most ``SIDE``."""
    share = min(1.0, SIDE / max(height, width))
    return max(SMALLEST_SIDE, round(height * share)), max(SMALLEST_SIDE, round(width * share))


def _resized(picture: np.ndarray, to: tuple[int, int]) -> np.ndarray:
    if picture.shape[:2] == to:
        return np.ascontiguousarray(picture)
    cv2 = opencv()
    shrunk = cv2.resize(np.ascontiguousarray(picture), to[::-1], interpolation=cv2.INTER_AREA)
    return shrunk.reshape(*to, picture.shape[2])


def _note(what: str, sizes: set[tuple[int, int]], to: tuple[int, int]) -> str:
    was = f"{max(sizes)[0]} x {max(sizes)[1]} pixels" if len(sizes) == 1 else f"{len(sizes):,} sizes"
    return f"{what} of {was} were made {to[0]} x {to[1]} by area averaging: what finer detail tells was not attacked."


# Pairs from files: two .npz files, two folders of pictures, or two films.


def read_pairs(before: Path, after: Path, *, labels: Path | None = None, order: Order = "test") -> Pairs:
    """Read what ``before`` and ``after`` name: both .npz, both folders, or both films. Raises ``BadInput``."""
    for option, path in (("BEFORE", before), ("AFTER", after)):
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
    for arrays in (first, second):
        arrays.pop(CONSENT, None)  # whose record may be shown: of no use here
    x, x_after = checked_samples(first["x"], before), checked_samples(second["x"], after)
    if labels is not None:
        given = read_labels(labels, key=None)
        of_rows(given, [str(i) for i in range(len(x))], labels, what="row")
        first = {"x": x, **given.columns}
    raw = labelled_arrays(x, first, labels or before)
    if order == "shuffled":
        return Pairs(raw, _same_classes(labelled_arrays(x_after, second, after), raw), order)
    for name in ("y", "z"):
        if name in second and len(x_after) == len(x):
            own, names = class_numbers(second[name], name, len(x_after), after)
            ours = np.array(getattr(raw, f"{name}_names"))[getattr(raw, name)]
            differ = int((np.array(names)[own] != ours).sum())
            if differ:
                raise BadInput(
                    f"`{name}` differs between {before} and {after} in {differ:,} of {len(x):,} rows: they are in "
                    "another order. Put them in one order, or give --rows shuffled to use each file's own labels."
                )
    return paired(raw, x_after, order=order)


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
    return replace(after, **numbers, y_names=before.y_names, z_names=before.z_names, known={})


def _folders(before: Path, after: Path, labels: Path | None, order: Order) -> Pairs:
    first, second = _names(before), _names(after)
    if order == "shuffled":
        (x, notes_before), (x_after, said_after) = pictures(first), pictures(second)
        raw, sent = (
            labelled_arrays(one, _classes(folder, list(names)), folder)
            for one, folder, names in ((x, before, first), (x_after, after, second))
        )
        return Pairs(raw, _same_classes(sent, raw), order, (*notes_before, *said_after))
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
    (x, notes_before), (x_after, said_after) = (
        pictures({names[i]: files[names[i]] for i in rows}) for files in (first, second)
    )
    notes += dict.fromkeys([*notes_before, *said_after])
    return paired(labelled_arrays(x, arrays, labels or before), x_after, order=order, notes=notes)


def _names(folder: Path) -> dict[str, Path]:
    """The pictures of a folder and of folders in it, by their path without the suffix, sorted; hidden ones left out."""
    by_name: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        below = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in below.parts)
        if path.suffix.lower() in SUFFIXES and path.is_file() and not hidden:
            name = below.with_suffix("").as_posix()
            if name in by_name:
                raise BadInput(f"{folder} has two pictures {name}, of different suffixes. Remove one.")
            by_name[name] = path
    if not by_name:
        raise BadInput(f"Pictures ({', '.join(SUFFIXES)}) were expected in {folder}; there are none.")
    return by_name


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
    return {name: np.array([part[place] for part in parts]) for place, name in enumerate(("y", "z"))}


def _of_classes(x: np.ndarray, folder: Path, names: Sequence[str]) -> Readings:
    return labelled_arrays(x, _classes(folder, names), folder)


def _films(before: Path, after: Path, labels: Path | None, order: Order) -> Pairs:
    if labels is None:
        raise BadInput(
            "Films need a file of labels: --labels labels.csv with the columns frame (numbered from 0 in the film "
            "before), y, z and, if known, subject and session."
        )
    (x, notes_before), (x_after, said_after) = film(before), film(after)
    notes = [*dict.fromkeys([*notes_before, *said_after])]
    shift = offset(_grey(x), _grey(x_after))
    if shift:
        notes.append(
            f"The film after is {counted(abs(shift), 'frame')} {'late' if shift > 0 else 'early'} "
            "(by correlation): its frames were moved back into line."
        )
    given = read_labels(labels, key="frame")
    line = of_rows(given, [str(i) for i in range(len(x))], labels, what="frame")
    frames = np.flatnonzero(line >= 0)
    inside = (frames + shift >= 0) & (frames + shift < len(x_after))
    lost = len(frames) - int(inside.sum())
    if lost > max(abs(shift), 1) or not inside.any():
        raise BadInput(
            f"As many frames after as before were expected; got {len(x):,} before and {len(x_after):,} after (moved by "
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
    return paired(labelled_arrays(x[frames], arrays, labels), x_after[frames + shift], order=order, notes=notes)


def _grey(film: np.ndarray) -> np.ndarray:
    """Frames (n, 16, 16) in grey, small enough for correlations of all of them."""
    return scaled(film, 16).mean(axis=-1)
