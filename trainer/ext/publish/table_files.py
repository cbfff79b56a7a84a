"""Tables in CSV and Parquet files, read as text and written with nothing but their columns."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.util.atomic import atomic_path
from edgeveil.trainer.datasets.columns import Cells, read_cells
from edgeveil.trainer.ext.publish.master_key import MasterKey, Scope
from edgeveil.trainer.ext.publish.vault import Vault, rotated
from edgeveil.trainer.recipe.messages import nearest
from edgeveil.trainer.results import locked, require_free

_PART = {  # settings that do not change, so that equal columns are equal bytes
    "compression": "zstd",
    "compression_level": 1,
    "version": "2.6",
    "write_statistics": False,  # the least and the most of a column would undo what k of people hides
    "store_schema": False,
}
KINDS = {".csv": "csv", ".parquet": "parquet"}


def kind_of(path: Path) -> str:
    """``csv`` or ``parquet``, by the file's name. Raises ``BadInput``."""
    if path.suffix.lower() not in KINDS:
        raise BadInput(f"A table in {' or '.join(KINDS)} was expected; came {path}. Save it as one of these.")
    return KINDS[path.suffix.lower()]


def read(path: Path) -> Cells:
    """The columns of a table as text, without the blanks around a cell. Raises ``BadInput``."""
    cells = read_cells(kind_of(path), path)
    return {name: [cell.strip() for cell in column] for name, column in cells.items()}


def write(path: Path, columns: Mapping[str, Sequence[str]]) -> None:
    """Write columns of text. In Parquet, those of whole numbers alone are int64; empty cells are null there."""
    if kind_of(path) == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(columns)
            rows.writerows(zip(*columns.values(), strict=True))
        return
    table = arrow_table(columns)
    parquet().write_table(table, path, compression="zstd", write_statistics=False)


def write_part(path: Path, columns: Any, outputs: Mapping[str, np.ndarray]) -> None:
    """Write a pyarrow table of ``columns`` and, after them, ``outputs`` (rows, ...) as bytes, or as numbers where they
    have no shape; whole or not at all. Equal columns are equal bytes."""
    arrow, texts = pyarrow(), columns.column_names
    for name, values in outputs.items():
        cells = np.ascontiguousarray(values)
        array = (
            arrow.array(cells)
            if cells.ndim == 1
            else arrow.FixedSizeBinaryArray.from_buffers(
                arrow.binary(cells[0].nbytes), len(cells), [None, arrow.py_buffer(cells)]
            )
        )
        columns = columns.append_column(name, array)
    with atomic_path(path) as temporary:
        parquet().write_table(columns, temporary, use_dictionary=texts, row_group_size=len(columns), **_PART)


def arrow_table(columns: Mapping[str, Sequence[str]]) -> Any:
    """Columns of text as a pyarrow table, of the types that ``write`` gives them. Raises ``BadInput``."""
    arrow = pyarrow()
    return arrow.table({name: _array(arrow, values) for name, values in columns.items()})


def pyarrow() -> Any:
    """The library. Raises ``BadInput`` where it is not installed."""
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError:
        raise BadInput(
            "Parquet files are written with pyarrow, which is not installed: pip install 'edgeveil[parquet]'."
        ) from None


def parquet() -> Any:
    """Its module of Parquet files. Raises ``BadInput`` where it is not installed."""
    pyarrow()
    return importlib.import_module("pyarrow.parquet")


def _array(arrow: Any, values: Sequence[str]) -> Any:
    filled = {value for value in values if value}
    if filled and all(_whole(value) for value in filled):
        return arrow.array([int(value) if value else None for value in values], arrow.int64())
    return arrow.array([value or None for value in values], arrow.string())


def _whole(value: str) -> bool:
    """Whether a number in its one spelling: 007 is none."""
    digits = value.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 18 and str(int(value)) == value


# A published table with its pseudonyms in another epoch.


def rotate(
    table: Path, column: str, out: Path, key: MasterKey, scope: Scope, *, to: int, vault: Vault | None = None
) -> None:
    """Write ``out``; where that fails, the vault is as it was. Raises ``BadInput``."""
    kind_of(out)
    cells = read(table)
    if column not in cells:
        raise BadInput(f'{table} has no column "{column}"{nearest(column, cells)}. Give the column of its pseudonyms.')
    with locked(out, "pseudonym rotate"):
        require_free(out, replace=False)
        with vault.change() if vault is not None else nullcontext():
            cells[column] = rotated(cells[column], key, scope, to=to, vault=vault)
            with atomic_path(out) as temporary:
                write(Path(temporary), cells)
