"""Parquet in memory with settings that do not change, so that equal columns are equal bytes."""

from __future__ import annotations

import importlib
import io
from collections.abc import Mapping, Sequence
from typing import Any

from edgeveil.trainer.publish.table_files import pyarrow

_SETTINGS = {
    "compression": "zstd",
    "compression_level": 1,
    "version": "2.6",
    "write_statistics": False,  # the least and the most of a column say what a k of people hides
    "store_schema": False,
}


_QUICK = {**_SETTINGS, "compression": "lz4", "compression_level": None}  # for a file that is soon read and gone


def packed(
    table: Any,
    texts: Sequence[str],
    groups: Sequence[int],
    notes: Mapping[str, str] | None = None,
    *,
    quick: bool = False,
) -> bytes:
    """A pyarrow table as one file: ``texts`` are columns with few values, ``groups`` the rows of each row group; where
    that is 0 there is none. ``notes`` are the file's metadata; ``quick`` takes less time and more room."""
    pyarrow()
    sink, settings = io.BytesIO(), _QUICK if quick else _SETTINGS
    parquet = importlib.import_module("pyarrow.parquet")
    with parquet.ParquetWriter(sink, table.schema, use_dictionary=list(texts), **settings) as writer:
        begin = 0
        for rows in groups:
            if rows:
                writer.write_table(table.slice(begin, rows), row_group_size=rows)
            begin += rows
        if notes:
            writer.add_key_value_metadata(dict(notes))
    assert begin == table.num_rows  # noqa: S101 - every row is in a group
    return sink.getvalue()


def opened(path: Any) -> Any:
    """A ``pyarrow.parquet.ParquetFile``."""
    pyarrow()
    return importlib.import_module("pyarrow.parquet").ParquetFile(path)
