"""A user's own films: ``video:FILE`` or ``video:DIR``, and a CSV with the classes from ``start`` to ``end`` (seconds).

They are read as on a board, one frame after the other; a frame's time is its number by the film's rate. With
``[capture]`` one frame a tick is taken, as a board takes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, FrameDropped, Missing
from edgeveil.edge_runtime.sources.video import VideoSource
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.datasets.columns import Table, labels, nfc, read_table
from edgeveil.trainer.datasets.loaders.captured import captured
from edgeveil.trainer.datasets.loaders.image_folder import FILE
from edgeveil.trainer.datasets.readings import Readings, checked_samples, labelled
from edgeveil.trainer.progress import progress
from edgeveil.trainer.recipe.data_section import Columns
from edgeveil.trainer.recipe.training_sections import Capture

START, END = "start", "end"  # columns of the CSV
OF_FILMS = (FILE, START, END)


@dataclass(frozen=True)
class Films:
    """Frames of films, read when they are asked for: of each row (N,) its film and its number there."""

    paths: tuple[Path, ...]
    film: np.ndarray
    number: np.ndarray
    channels: int

    def __len__(self) -> int:
        return len(self.film)

    def __getitem__(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Rows that go forward in one film read it once."""
        source, at, film = None, 0, -1
        try:
            for row in rows:
                if source is None or film != self.film[row] or self.number[row] < at:
                    if source is not None:
                        source.close()
                    film, at = int(self.film[row]), 0
                    source = opened(self.paths[film], self.channels)
                source.skip(int(self.number[row]) - at)
                at = int(self.number[row]) + 1
                yield _frame(source, self.paths[film], at - 1)
        finally:
            if source is not None:
                source.close()


def opened(path: Path, channels: int) -> VideoSource:
    """A film as the board opens it, of any size. Raises ``BadInput``."""
    try:
        return VideoSource(str(path), {"kind": "image", "shape": [1, 1, channels], "dtype": "uint8", "any_size": True})
    except (Missing, DeviceFailed) as problem:
        raise BadInput(f"{path}: {problem}.") from None


def first_frame(path: Path) -> np.ndarray:
    """The first frame (height, width, 3) of a film, or of the first one in a folder. Raises ``BadInput``."""
    films = [path] if path.is_file() else sorted(one for one in path.glob("*") if one.suffix.lower() != ".csv")
    if not films:
        raise BadInput(f"Expected films in {path}; there are none.")
    with opened(films[0], 3) as source:
        return _frame(source, films[0], 0)


def load(path: Path, file: Path, columns: Columns, capture: Capture | None) -> Readings:
    """Read and check the frames that the CSV labels; with ``capture`` they are those of the sensor. Raises
    ``BadInput``."""
    table = read_table("csv", file, columns.missing)
    names = [""] * table.rows if path.is_file() else table.column(FILE, "the film of each row").classes.tolist()
    starts, ends = (seconds(table, name) for name in (START, END))
    order = np.lexsort((starts, np.array(names, str)))
    table = Table(table.path, {name: column[order] for name, column in table.columns.items()})
    names, starts, ends = [str(names[row]) for row in order], starts[order], ends[order]
    for row in range(len(order)):
        ordered = 0 <= starts[row] < ends[row]
        again = ordered and row and names[row] == names[row - 1] and starts[row] < ends[row - 1]
        if again or not ordered:
            what = "it begins before the one before it ends" if again else "expected start below end, from 0"
            raise BadInput(f"{file}: the row from {starts[row]:g} to {ends[row]:g} s {names[row]}: {what}. Correct it.")
    entries = {nfc(one.name): one for one in (path.iterdir() if path.is_dir() else ())}
    paths = {name: entries.get(nfc(name), path / name) if name else path for name in dict.fromkeys(names)}
    shape = [] if capture is None else capture.frame.shape
    channels = 1 if len(shape) == 2 else (shape or [0, 0, 3])[2]
    rows, film, number = list[int](), list[int](), list[int]()
    for at, (name, one) in enumerate(paths.items()):
        with opened(one, channels) as source:
            rate, size = source.fps, source.size
        step = 1 if capture is None else max(1, round(rate / capture.tick_hz))
        for row in (row for row in range(len(order)) if names[row] == name):
            last = min(math.ceil(ends[row] * rate - 1e-6), math.inf if size is None else size)
            numbers = range(math.ceil(starts[row] * rate - 1e-6), int(last), step)
            if not numbers:
                raise BadInput(f"{file}: {one} has no frame from {starts[row]:g} to {ends[row]:g} s. Correct the row.")
            rows += [row] * len(numbers)
            film += [at] * len(numbers)
            number += numbers
    films = Films(tuple(paths.values()), np.array(film), np.array(number), channels)
    of_roles = {role: (name, values[rows]) for role, (name, values) in labels(table, columns).items()}
    if not {"subject", "session"} & set(of_roles):
        of_roles["session"] = (START, np.array(rows))  # frames of one row resemble each other
    if capture is not None:
        return captured(labelled(films, "image", of_roles, file), capture)
    with progress("reading films", total=len(films)) as count:
        read = []
        for frame in films[np.arange(len(films))]:
            read.append(frame)
            count()
    if len({frame.shape for frame in read}) > 1:
        raise BadInput(f"{path}: the films have several sizes. Say with --camera fit=letterbox how they become one.")
    return labelled(checked_samples(np.stack(read), path), "image", of_roles, file, low=0.0, high=255.0)


def _frame(source: VideoSource, path: Path, number: int) -> np.ndarray:
    try:
        frame = source.next()
    except (DeviceFailed, FrameDropped) as problem:
        raise BadInput(f"{path}: {problem}. Save the film again.") from None
    if frame is None:
        raise BadInput(f"{path} ends before its {counted(number + 1, 'frame')}. Lower `{END}` of its last row.")
    data: np.ndarray = frame._data
    return data


def seconds(table: Table, name: str) -> np.ndarray:
    """The column of seconds (rows,). Raises ``BadInput``."""
    found = table.column(name, "the seconds of a film")
    if not found.is_number or found.missing.any():
        raise BadInput(f'{table.path}: column "{name}" must have seconds in every row{found.first_text()}.')
    return found.values.astype(float)
