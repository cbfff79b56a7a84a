"""Labels of samples in a CSV file: columns y and z, and optionally file or frame, subject, session and label_NAME."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.trainer.datasets.loaders.npz import KNOWN

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
