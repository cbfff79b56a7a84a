"""Files of samples in fields with names: what the readers of HDF5, TFRecord, WebDataset, ROS and others share.

A format is one class in a file of ``loaders``, or in another package (entry point ``edgeveil.datasets``). It gives a
``Table``: fields with one value a row are columns, those with an array or a picture a row are ``Samples``. Nothing
that a file names is followed, unpickled or run, and what a file says of its size is compared with what is there before
room is made for it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, EdgeVeilError, reason
from edgeveil.edge_runtime.sources.images import files_below, upright
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.datasets.base import Sampling, taken
from edgeveil.trainer.datasets.columns import Table, clause, library, listed, nfc, read_table
from edgeveil.trainer.datasets.columns import labels as roles_of
from edgeveil.trainer.datasets.loaders import films
from edgeveil.trainer.datasets.loaders.captured import captured
from edgeveil.trainer.datasets.loaders.image_folder import TEST, TRAINING, alike, picture_of, several
from edgeveil.trainer.datasets.readings import Readings, checked_samples, labelled, labelled_windows
from edgeveil.trainer.datasets.samples import require_memory
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.data_section import Columns
from edgeveil.trainer.recipe.messages import nearest
from edgeveil.trainer.recipe.training_sections import Capture

Shapes = Counter[tuple[tuple[int, ...], str]]


class Format:
    """A kind of file with a user's own samples, as KIND:PATH. A kind of ``data_section.SETS``; its facts are literals.

    ``forms`` are for messages; a file is known by ``endings`` and a folder by ``marks``, names in it. ``extra`` of
    pyproject.toml installs ``module``. Rows of a ``timed`` one have a time, and labels may change with it.
    """

    names: ClassVar[tuple[str, ...]]
    forms: ClassVar[tuple[str, ...]]
    what: ClassVar[str]  # "HDF5 files"
    endings: ClassVar[tuple[str, ...]] = ()
    marks: ClassVar[tuple[str, ...]] = ()
    module: ClassVar[str] = "numpy"
    extra: ClassVar[str] = "trainer"
    timed: ClassVar[bool] = False

    @classmethod
    def read(cls, path: Path, gone: Collection[str], x: str | None) -> Table:
        """The fields of a file or folder; ``gone`` are words for an empty cell, ``x`` names the field of samples.

        May raise what the library raises.
        """
        raise NotImplementedError

    @classmethod
    def table(cls, path: Path, gone: Collection[str], x: str | None) -> Table:
        """As ``read``. Raises ``BadInput``."""
        library(cls.module, cls.what, cls.extra)
        if not path.exists():
            raise BadInput(f"Expected {cls.what} in {path}; there is no such file. Correct its path.")
        try:
            found = cls.read(path, gone, x)
        except EdgeVeilError:
            raise
        except Exception as error:  # of many kinds
            raise BadInput(f"{path} cannot be read ({clause(error)}): expected {cls.what}. Write it again.") from None
        if not found.columns:
            fields = f": {listed(found.arrays)} are arrays" if found.arrays else ""
            raise BadInput(f"{path} has no field with one value a row, as y and z are{fields}. Add them.")
        return found

    @classmethod
    def files(cls, path: Path) -> list[Path]:
        """The file, or all of a folder with the format's endings, by name. Raises ``BadInput`` where there is none."""
        if path.is_file():
            return [path]
        try:
            found = sorted(Path(one) for one in files_below(path))
        except OSError as error:
            raise BadInput(f"{error.filename} cannot be read: {reason(error)}. Make it readable.") from None
        found = [one for one in found if one.suffix[1:].lower() in cls.endings and one.is_file()]
        if not found:
            raise BadInput(
                f"Expected {cls.what} ({', '.join(f'.{one}' for one in cls.endings)}) in {path}; there is none."
            )
        return found


@dataclass(frozen=True)
class Samples:
    """A field with an array or a picture in each row. ``each`` gives those of rows that go forward, pictures as a
    file's bytes; ``whole`` all at once, where that is quicker. ``where`` begins a sentence."""

    where: str
    rows: int
    each: Callable[[Iterable[int]], Iterator[Any]]
    whole: Callable[[], np.ndarray] | None = None

    @classmethod
    def of(cls, where: str, values: Sequence[Any] | np.ndarray) -> Samples:
        """Of arrays, or of files of pictures, that are there already."""
        whole = (lambda: values) if isinstance(values, np.ndarray) else None
        return cls(where, len(values), lambda rows: (values[row] for row in rows), whole)

    def __len__(self) -> int:
        return self.rows

    def taken(self, rows: np.ndarray) -> Samples:
        """Those of some rows, which go forward."""
        whole = self.whole
        some = None if whole is None else lambda: whole()[rows]
        return Samples(self.where, len(rows), lambda wanted: self.each([int(rows[row]) for row in wanted]), some)

    def __getitem__(self, rows: Iterable[int]) -> Iterator[np.ndarray]:
        rows = [int(row) for row in rows]
        found = self.each(rows)
        for row in rows:
            where = f"{self.where}, row {row + 1},"
            try:
                one = next(found)
            except EdgeVeilError:
                raise
            except Exception as error:  # a library's, of many kinds
                raise BadInput(f"{where} cannot be read ({clause(error)}). Write the file again.") from None
            if isinstance(one, bytes):
                one = picture_of(lambda data=one: upright(data), where)  # type: ignore[misc]
            yield one[..., None] if one.ndim == 2 else one

    def seen(self) -> tuple[Shapes, float, float]:
        """How many have each shape and type, and the lowest and highest value. Raises ``BadInput``."""
        if self.whole is not None:
            x = self.stacked()
            return Counter({(x.shape[1:], str(x.dtype)): len(x)}), float(x.min()), float(x.max())
        kinds, low, high = Counter[tuple[tuple[int, ...], str]](), np.inf, -np.inf
        for one in self[range(self.rows)]:
            kinds[one.shape, str(one.dtype)] += 1
            low, high = min(low, float(one.min())), max(high, float(one.max()))
        return kinds, low, high

    def stacked(self) -> np.ndarray:
        """x (N, ...). Raises ``BadInput`` for samples of several shapes or types, or more than memory has room for."""
        if self.whole is not None:
            return self.whole()
        kinds, x = Counter[tuple[tuple[int, ...], str]](), np.empty(0)
        for row, one in enumerate(self[range(self.rows)]):
            if not row:
                need_memory(one.nbytes * self.rows, self.where)
                x = np.empty((self.rows, *one.shape), one.dtype)
            kinds[one.shape, str(one.dtype)] += 1
            if len(kinds) == 1:
                x[row] = one
        if len(kinds) > 1:
            raise BadInput(f"{self.where}: {uneven(kinds)}")
        return x


def uneven(kinds: Shapes) -> str:
    """What is wrong with samples of several shapes or types, and what to do."""
    if all(len(shape) == 3 for shape, _ in kinds):
        return f"{several(kinds)}. {alike(kinds)}"
    shown = "; ".join(
        f"{count} of {' x '.join(map(str, shape))} {dtype}" for (shape, dtype), count in kinds.most_common(4)
    )
    return f"its rows have {len(kinds)} shapes or types: {shown}. Bring them to one."


def need_memory(size: float, where: str) -> None:
    """Raise ``BadInput`` where so many bytes do not fit."""
    require_memory(size, f"The samples of {where}", "Leave rows out, or use a machine with more")


def held_out(names: Sequence[str], rows: Sequence[int]) -> np.ndarray | None:
    """Which rows are for the test, bool, by the word "test" or "train" in the path of their file (``names``, of so many
    ``rows`` each); None where not every path has one, or all have the same."""
    words = [[word for word in re.split(r"[-_/.]", name.lower()) if word in (*TRAINING, *TEST)] for name in names]
    if not all(words):
        return None
    test = [found[-1] in TEST for found in words]
    return np.repeat(test, rows) if 0 < sum(test) < len(test) else None


def below(folder: Path, files: Iterable[Path]) -> list[str]:
    """The paths of files below a folder, or their names alone where it is one of them."""
    return [os.path.relpath(file, folder) if folder.is_dir() else file.name for file in files]


def x_of(table: Table, columns: Columns) -> tuple[str, Samples]:
    """The field of samples, with its name. Raises ``BadInput`` where the file has several and none is named."""
    name = nfc(columns.x or "")
    left = [one for one in table.arrays if one not in map(nfc, columns.leave_out or ())]
    if not name and len(left) == 1:
        name = left[0]
    if name in table.arrays:
        return name, table.arrays[name]
    if name:
        what = "has one value a row" if name in table.columns else f"is not there{nearest(name, table.arrays)}"
        raise BadInput(f'{table.path}: "{name}" {what}; fields of arrays or pictures are {listed(table.arrays)}.')
    raise BadInput(
        f"{table.path}: which field is x? There are {listed(left or table.arrays)}: name it: {table.path}#FIELD."
    )


def load(
    table: Table,
    columns: Columns,
    capture: Capture | None = None,
    *,
    labels: Path | None = None,
    series: Sampling | None = None,
) -> Readings:
    """The samples of a format's fields; with ``capture`` frames of the sensor, with ``series`` windows. Raises
    ``BadInput``."""
    table = with_labels(table, columns, labels)
    name, samples = x_of(table, columns)
    of_roles, where = roles_of(table, columns), samples.where
    if TIME in table.columns and not {"subject", "session"} & set(of_roles):
        of_roles["session"] = ("session", _parts(table, of_roles))
    if capture is not None:
        return captured(labelled(samples, "image", of_roles, table.path, test=table.test), capture)
    x = samples.stacked()
    if series is not None:
        return labelled_windows(x, series, of_roles, Path(where), test=table.test)
    x = checked_samples(x, Path(f"{table.path}: {name}"))
    low, high = (0.0, 255.0) if x.ndim == 4 and x.dtype == np.uint8 else (None, None)
    return labelled(x, "vector" if x.ndim == 2 else "image", of_roles, table.path, low=low, high=high, test=table.test)


TIME = "time"  # the column of a timed format with the seconds of each row from the first of its file


def with_labels(table: Table, columns: Columns, labels: Path | None) -> Table:
    """A timed table with the columns of its CSV of labels, without the rows that have no label. Raises ``BadInput``."""
    if TIME not in table.columns:
        return table
    found, keep = dict(table.columns), np.ones(table.rows, bool)
    if labels is not None:
        said = read_table("csv", labels, columns.missing)
        row = _stretch(said, table)
        keep = row >= 0
        found |= {name: one[row] for name, one in said.columns.items() if name not in films.OF_FILMS}
    merged = Table(table.path, found, table.arrays, table.test)
    for role in ("target", "sensitive", "subject", "session"):
        if (name := getattr(columns, role)) is not None:
            keep &= ~merged.column(name, f"data.columns.{role}").missing
    if not keep.any():
        raise BadInput(f"{table.path}: none of {counted(table.rows, 'row')} has all labels. Name a CSV with --labels.")
    if keep.all():
        return merged
    say(f"note: {table.path}: {counted(int((~keep).sum()), 'row')} without a label left out, {keep.sum()} kept")
    rows = np.flatnonzero(keep)
    arrays = {name: one.taken(rows) for name, one in table.arrays.items()}
    return Table(table.path, {name: one[rows] for name, one in found.items()}, arrays, taken(table.test, rows))


def _stretch(said: Table, table: Table) -> np.ndarray:
    """The row of the CSV that each row (rows,) is in: -1 for none. Raises ``BadInput`` for stretches that overlap."""
    time, found = table.columns[TIME].values, np.full(table.rows, -1)
    timed, named = films.START in said.columns, films.FILE in said.columns
    starts, ends = (films.seconds(said, name) if timed else None for name in (films.START, films.END))
    if not timed and not named:
        raise BadInput(f'{said.path}: expected a column "{films.FILE}", or "{films.START}" and "{films.END}", or all.')
    for row in range(said.rows):
        inside = (
            np.ones(table.rows, bool) if starts is None or ends is None else (time >= starts[row]) & (time < ends[row])
        )
        if named:
            inside &= table.columns[films.FILE].classes == str(said.columns[films.FILE].classes[row])
        if not inside.any() or (found[inside] >= 0).any():
            what = "meets another row" if inside.any() else f"has no sample of {table.path}"
            raise BadInput(f"{said.path}: row {row + 1} {what}. Correct its file, start and end.")
        found[inside] = row
    return found


def _parts(table: Table, of_roles: Mapping[str, tuple[str, np.ndarray]]) -> np.ndarray:
    """A number for each stretch of rows of one file with the same labels: frames of one resemble each other."""
    each = [table.columns[films.FILE].classes, *(values for _, values in of_roles.values())]
    rows = np.stack([np.unique(one, return_inverse=True)[1] for one in each])
    return np.cumsum(np.concatenate([[False], (rows[:, 1:] != rows[:, :-1]).any(axis=0)]))


def alike_columns(parts: Sequence[Mapping[str, Any]], path: Path, files: Sequence[str]) -> list[str]:
    """The names of the fields that all files have. Raises ``BadInput`` where one has others."""
    for part, file in zip(parts, files, strict=True):
        if set(part) != set(parts[0]):
            other = listed(sorted(set(part) ^ set(parts[0])))
            raise BadInput(f"{path}: {files[0]} and {file} have different fields, {other}. Name a folder of one kind.")
    return list(parts[0])
