"""The rows that are attacked, read from the files that were written: frames, columns, and what links them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgeveil.trainer.ext.publish import reader, table_files
from edgeveil.trainer.ext.publish.plan import Plan

MOST_PEOPLE = 20_000
MOST_VALUES = 2**25  # of frames, in all: 42,000 frames of 28 x 28


class Output(NamedTuple):
    """A column of bytes: values of one output of the pipeline, little-endian, row by row; () is a number."""

    column: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Published:
    """Rows of a publication. ``place`` (rows,) is where each is among all rows of the files, one file after the other.

    ``outputs`` are (rows, *shape) by column, ``columns`` (rows,) of text but for the pseudonym of people. ``whose``
    says whose each row is; ``linked``: a pseudonym tells that to everybody.
    """

    place: np.ndarray
    outputs: Mapping[str, np.ndarray]
    columns: Mapping[str, Sequence[str]]
    whose: Sequence[Hashable]
    linked: bool

    @property
    def person(self) -> np.ndarray:
        """Numbers (rows,) of people from 0, without gaps."""
        return numbers(self.whose)

    def take(self, rows: np.ndarray) -> Published:
        """Some of the rows (m,), by their place here."""
        return Published(
            self.place[rows],
            {name: array[rows] for name, array in self.outputs.items()},
            {name: [cells[row] for row in rows] for name, cells in self.columns.items()},
            [self.whose[row] for row in rows],
            self.linked,
        )


def numbers(names: Sequence[Hashable]) -> np.ndarray:
    """Numbers (rows,) of people from 0, in the order of their first rows."""
    seen: dict[Hashable, int] = {}
    return np.array([seen.setdefault(name, len(seen)) for name in names], np.int64)


def read(
    files: Sequence[Path], plan: Plan, people: Sequence[Hashable], outputs: Sequence[Output] = (), *, seed: int = 0
) -> Published:
    """The rows of ``MOST_PEOPLE`` people at most, drawn from all of ``files``.

    ``people`` (rows of all files,) says whose they are, where no pseudonym in them does; else it may be empty.
    """
    linked = plan.anonymity.link == "person"
    whose: Sequence[Hashable] = people
    if linked:
        whose = reader.columns_of(files, [str(plan.anonymity.people)])[str(plan.anonymity.people)]
    rows = _drawn(whose, sum(math.prod(one.shape) for one in outputs), seed)
    names = [name for name in plan.published if not linked or name != plan.anonymity.people]
    columns: dict[str, list[str]] = {name: [] for name in names}
    frames: dict[str, list[np.ndarray]] = {one.column: [] for one in outputs}
    begin = 0
    for file in files:
        texts = reader.columns_of([file], names)
        count = len(next(iter(texts.values())))
        drawn = rows[(rows >= begin) & (rows < begin + count)] - begin
        for name, cells in texts.items():
            columns[name] += [cells[row] for row in drawn]
        for one in outputs:
            cells = table_files.parquet().read_table(file, columns=[one.column]).column(0).to_pylist()
            frames[one.column].append(_values(one, [cells[row] for row in drawn]))
        begin += count
    return Published(
        rows,
        {name: np.concatenate(parts) for name, parts in frames.items()},
        columns,
        [whose[row] for row in rows],
        linked,
    )


def _drawn(whose: Sequence[Hashable], values: int, seed: int) -> np.ndarray:
    """All rows of people who are drawn until there are enough of them, or their frames fill the memory."""
    person = numbers(whose)
    often = np.bincount(person)
    order = np.random.default_rng([seed, 31]).permutation(len(often))
    filled = np.cumsum(often[order]) * max(values, 1)
    chosen = order[: max(1, min(MOST_PEOPLE, int(np.searchsorted(filled, MOST_VALUES, "right"))))]
    return np.flatnonzero(np.isin(person, chosen))


def _values(output: Output, cells: Sequence[Any]) -> np.ndarray:
    """(rows, *shape) of an output."""
    dtype = np.dtype(output.dtype).newbyteorder("<")
    if not output.shape:
        return np.array(cells, dtype).astype(output.dtype)
    values = np.frombuffer(b"".join(cells), dtype).reshape(len(cells), *output.shape)
    return values.astype(output.dtype)
