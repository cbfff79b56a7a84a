"""The rows of a publication before their frames: what is published of each, and where it goes.

Beside the published columns stand ``frame``, the number of its frame (-1: not paid for), ``person``, a number, and
``place``, a keyed hash of the row. Its first bytes say in which part a row is, all of it where; nobody without the key
can tell from it which row of the archive it was. One row group is one chunk of frames.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.publish.table_files import arrow_table, pyarrow
from edgeveil.trainer.publish.work.passes.parquet_bytes import opened, packed

FRAME, PERSON, PLACE, ROW = INNER = ("frame", "person", "place", "row")
PREFIX = "edgeveil "  # before the names of inner columns: no column of a table is called so
NAME = "rows.parquet"
_DIGEST = 16


def places(secret: bytes, rows: np.ndarray) -> np.ndarray:
    """A keyed hash of each row's number, bytes (rows, 16)."""
    drawn = [hashlib.blake2b(int(row).to_bytes(8, "big"), key=secret, digest_size=_DIGEST).digest() for row in rows]
    return np.frombuffer(b"".join(drawn), np.uint8).reshape(-1, _DIGEST)


def parts_of(place: np.ndarray, parts: int) -> np.ndarray:
    """The part (rows,) of each place."""
    return (place[:, :8].copy().view(">u8")[:, 0] % np.uint64(parts)).astype(np.int64)


def order_of(place: np.ndarray, part: np.ndarray | None = None) -> np.ndarray:
    """The rows (rows,) in the order of their places; those of a ``part`` (rows,) one after the other."""
    first, second = place.copy().view(">u8").T
    return np.lexsort((second, first) if part is None else (second, first, part))


def row_table(columns: Mapping[str, Sequence[str]], frame: np.ndarray, person: np.ndarray, place: np.ndarray) -> Any:
    """A pyarrow table; its rows in the order of ``frame``."""
    arrow = pyarrow()
    table = arrow_table(columns)
    inner = {
        FRAME: arrow.array(frame),
        PERSON: arrow.array(person),
        PLACE: place_array(place),
        ROW: arrow.array(np.arange(len(frame))),
    }
    for name, values in inner.items():
        table = table.append_column(PREFIX + name, values)
    return table


def place_array(place: np.ndarray) -> Any:
    """Places as a pyarrow array."""
    arrow = pyarrow()
    return arrow.FixedSizeBinaryArray.from_buffers(
        arrow.binary(_DIGEST), len(place), [None, arrow.py_buffer(place.tobytes())]
    )


def place_values(column: Any) -> np.ndarray:
    """The same back, bytes (rows, 16)."""
    pieces = [np.frombuffer(one.buffers()[1], np.uint8).reshape(-1, _DIGEST) for one in column.chunks if len(one)]
    # A slice of a table has the buffer of the whole.
    found = [piece[one.offset : one.offset + len(one)] for piece, one in zip(pieces, filter(len, column.chunks))]
    return np.concatenate([np.empty((0, _DIGEST), np.uint8), *found])


def as_bytes(table: Any, chunk_rows: int) -> bytes:
    """The file of the rows, in row groups of ``chunk_rows``."""
    whole, rest = divmod(table.num_rows, chunk_rows)
    return packed(table, published(table), [chunk_rows] * whole + ([rest] if rest else []))


def published(table: Any) -> list[str]:
    """The columns of a table that leave."""
    return [name for name in table.column_names if not name.startswith(PREFIX)]


@dataclass(frozen=True)
class Rows:
    """What the publisher needs to know of all rows at once."""

    person: np.ndarray
    place: np.ndarray
    table: Any

    @classmethod
    def read(cls, work: Path, columns: Sequence[str] = ()) -> Rows:
        """``columns`` of the table beside it."""
        names = [PREFIX + PERSON, PREFIX + PLACE, *columns]
        table = opened(work / NAME).read(columns=names)
        return cls(table.column(names[0]).to_numpy(), place_values(table.column(names[1])), table.select(columns))

    def __len__(self) -> int:
        return len(self.person)

    def texts(self, name: str) -> list[str]:
        """A column as text."""
        return ["" if one is None else str(one) for one in self.table.column(name).to_pylist()]
