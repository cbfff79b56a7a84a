"""A user's own pictures: ``images:DIR`` with a folder for each class of y, and a CSV with z of each.

They are read as on a board, by OpenCV: gray (height, width, 1), colour (height, width, 3) as RGB.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, Missing, reason
from edgeveil.edge_runtime.sources import images
from edgeveil.edge_runtime.sources.images import SUFFIXES, files_below
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.datasets.columns import Table, labels, listed, nfc, read_table
from edgeveil.trainer.datasets.loaders.captured import captured
from edgeveil.trainer.datasets.readings import Readings, checked_samples, labelled
from edgeveil.trainer.datasets.samples import converted, fingerprint, is_large
from edgeveil.trainer.progress import progress, say
from edgeveil.trainer.recipe.data_section import Columns
from edgeveil.trainer.recipe.messages import nearest
from edgeveil.trainer.recipe.training_sections import Capture

TRAINING, TEST = ("train", "training", "val", "valid", "validation", "dev"), ("test", "testing")  # names of splits
FITTED = 64  # pixels: the longer side that is proposed for pictures of several sizes
FILE = "file"  # the column of the CSV that names the picture


@dataclass(frozen=True)
class Pictures:
    """The pictures of a folder: ``names`` are paths below ``folder``, sorted. They are read when they are asked for.

    ``count`` is called for each that was read. ``others`` counts the files that are none of them, by their endings.
    """

    folder: Path
    names: tuple[str, ...]
    others: Counter[str] = field(default_factory=Counter)
    count: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        for row in rows:
            yield read_picture(self.folder / self.names[row])
            self.count()

    def facts(self) -> list[tuple[str, int, int]]:
        """What a fingerprint has of them: names, sizes and times. Raises ``BadInput``."""
        try:
            found = [(self.folder / name).stat() for name in self.names]
        except OSError as error:
            raise BadInput(f"{error.filename} cannot be read: {reason(error)}. Make it readable.") from None
        return [(name, one.st_size, one.st_mtime_ns) for name, one in zip(self.names, found, strict=True)]

    def classes(self) -> np.ndarray:
        """The folder (N,) that each picture lies in, text. Raises ``BadInput`` for one that lies in none."""
        at = 0 if self.held() is None else 1  # DIR/train/CLASS/PICTURE
        loose = [name for name in self.names if name.count("/") <= at]
        if loose:
            raise BadInput(
                f"{self.folder}: {counted(len(loose), 'picture lies', 'pictures lie')} in no class, such as "
                f"{loose[0]}. Expected "
                "DIR/CLASS/PICTURE: move them into a folder for each class of y, or name the column of y with --target."
            )
        return np.array([nfc(name.split("/")[at]) for name in self.names])

    def held(self) -> np.ndarray | None:
        """Which pictures (N,) lie in a folder for the test, bool; None where the folders are no train and test."""
        first = [name.partition("/")[0].lower() if "/" in name else "" for name in self.names]
        if not set(first) <= {*TRAINING, *TEST} or not {*TRAINING} & set(first) or not {*TEST} & set(first):
            return None
        return np.array([name in TEST for name in first])

    def left_out(self) -> list[str]:
        """A sentence that counts and names what is no picture here; none where there is nothing."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.others.items()))
        files = counted(self.others.total(), "file was", "files were")
        reads = f"{files} left out of {self.folder} ({kinds}): pictures are read as {', '.join(SUFFIXES)}"
        return [reads] if kinds else []

    def notes(self) -> list[str]:
        """What a person should know of the folder, in sentences."""
        held = self.held()
        note = [] if held is None else [f"the split is kept: {held.sum():,} of {len(held):,} pictures are for the test"]
        return [*self.left_out(), *note]


def find(folder: Path) -> Pictures:
    """All pictures below a folder, through links to folders; hidden ones are left out, and so are tables. Raises
    ``BadInput`` where there are none."""
    if not folder.is_dir():
        problem = "it is a file" if folder.exists() else "there is no such folder"
        raise BadInput(f"Expected a folder of pictures at {folder}; {problem}. Correct its path.")
    try:
        below = [Path(os.path.relpath(path, folder)) for path in files_below(folder)]
    except OSError as error:
        raise BadInput(f"{error.filename} cannot be read: {reason(error)}. Make it readable.") from None
    names = sorted(path.as_posix() for path in below if path.suffix.lower() in SUFFIXES)
    if not names:
        raise BadInput(f"Expected pictures ({', '.join(SUFFIXES)}) below {folder}; there are none.")
    others = (path.suffix.lower() or path.name for path in below if path.suffix.lower() not in (*SUFFIXES, ".csv"))
    return Pictures(folder, tuple(names), Counter(others))


def read_picture(path: Path) -> np.ndarray:
    """One picture (height, width, channels) as the board's ``images:`` reads it. Raises ``BadInput``."""
    return picture_of(lambda: images.read_picture(path), str(path))


def picture_of(read: Callable[[], Any], where: str) -> np.ndarray:
    """What the board's reader gives, as ``read_picture``; ``where`` begins a sentence. Raises ``BadInput``."""
    try:
        picture: np.ndarray | None = read()
    except Missing as missing:
        raise BadInput(f"{missing}.") from None
    if picture is None:
        raise BadInput(
            f"{where} cannot be read as a picture: it is damaged, too large, or of another kind. Replace or remove it."
        )
    if picture.ndim == 3 and picture.shape[2] == 4:
        raise BadInput(f"{where} has an alpha channel, which no camera gives. Save it without.")
    return picture[:, :, None] if picture.ndim == 2 else np.ascontiguousarray(picture[:, :, ::-1])


def load(folder: Path, file: Path, columns: Columns, capture: Capture | None) -> Readings:
    """Read and check the pictures; with ``capture`` they are frames of the sensor. Raises ``BadInput``."""
    pictures = find(folder)
    for note in pictures.notes():
        say(f"note: {note}")
    table = matched(pictures, read_table("csv", file, columns.missing))
    of_roles = {} if columns.target else {"target": ("y", pictures.classes())}
    of_roles |= labels(table, columns)
    with progress("reading pictures", total=len(pictures)) as count:
        pictures = replace(pictures, count=count)
        if capture is not None:
            frames = labelled(pictures, "image", of_roles, folder, test=pictures.held())
            return captured(frames, capture, folder, pictures.facts())
        x = checked_samples(_stacked(pictures), folder)
    low, high = (0.0, 255.0) if x.dtype == np.uint8 else (None, None)
    return labelled(x, "image", of_roles, folder, low=low, high=high, test=pictures.held())


def matched(pictures: Pictures, table: Table) -> Table:
    """The rows of a CSV in the order of the pictures. Raises ``BadInput`` where one lacks the other."""
    named = table.column(FILE, "the picture of each row").classes.astype(str).tolist()
    place = {name: row for row, name in enumerate(named)}
    if len(place) < len(named):
        raise BadInput(
            f'{table.path}: "{Counter(named).most_common(1)[0][0]}" has two rows. Leave one of each picture.'
        )
    existing = set(map(nfc, pictures.names))  # a table from another system writes an umlaut in another way
    unknown = [name for name in named if name not in existing]
    if unknown:
        kinds = "".join(f" {note}." for note in pictures.left_out())
        shown = f'"{unknown[0]}"{nearest(unknown[0], pictures.names)}'.encode("ascii", "backslashreplace").decode()
        raise BadInput(
            f"{table.path}: {len(unknown)} of {len(named)} files are not among the pictures below {pictures.folder}, "
            f'such as {shown}. Expected paths below it, such as "{pictures.names[0]}".{kinds}'
        )
    without = [name for name in pictures.names if nfc(name) not in place]
    if without:
        raise BadInput(
            f"{table.path}: {len(without)} of {len(pictures)} pictures have no row, such as {listed(without[:1])}. "
            "Add rows, or move them away."
        )
    order = np.array([place[nfc(name)] for name in pictures.names])
    return Table(table.path, {name: column[order] for name, column in table.columns.items()})


def _stacked(pictures: Pictures) -> np.ndarray:
    """x (N, height, width, channels). Raises ``BadInput`` for pictures of several shapes or types."""
    kinds: Counter[tuple[tuple[int, ...], str]] = Counter()

    def read() -> Iterator[tuple[int, np.ndarray]]:
        for number, one in enumerate(pictures[np.arange(len(pictures))]):
            kinds[one.shape, str(one.dtype)] += 1
            if len(kinds) == 1:
                yield number, one
        if len(kinds) > 1:
            raise BadInput(f"{pictures.folder}: {several(kinds)}. {alike(kinds)}")

    first = read_picture(pictures.folder / pictures.names[0])
    shape: Any = (len(pictures), *first.shape)
    if is_large(shape, first.dtype):
        seen = fingerprint(pictures.folder, pictures.facts())
        return cast(np.ndarray, converted(pictures.folder, seen, shape, first.dtype, read)[0])
    return np.stack([one for _, one in read()])


def alike(kinds: Counter[tuple[tuple[int, ...], str]]) -> str:
    """What to do about pictures of several shapes or types."""
    if len({dtype for _, dtype in kinds}) > 1 or max(shape[2] for shape, _ in kinds) > 3:
        return "Save all in one type, 8 or 16 bits."
    high, wide, _ = max(kinds, key=lambda kind: kinds[kind])[0]
    channels, scale = max(shape[2] for shape, _ in kinds), min(1.0, FITTED / max(high, wide))
    frame = f"{max(1, round(wide * scale))}x{max(1, round(high * scale))}x{channels}"
    return (
        f"Bring them to one size, as the board will: recipe new --camera frame={frame} --camera fit=letterbox, or "
        "fit=stretch."
    )


def several(kinds: Counter[tuple[tuple[int, ...], str]]) -> str:
    """The shapes and types of pictures, for a sentence."""
    shown = "; ".join(
        f"{count} of {' x '.join(map(str, shape))} {dtype}" for (shape, dtype), count in kinds.most_common(4)
    )
    return f"the pictures have {len(kinds)} shapes or types (height x width x channels): {shown}"
