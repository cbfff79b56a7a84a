"""Tables in CSV and Parquet files, read as text and written with nothing but their columns."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.columns import Cells, read_cells

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
    importlib.import_module("pyarrow.parquet").write_table(table, path, compression="zstd", write_statistics=False)


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


def _array(arrow: Any, values: Sequence[str]) -> Any:
    there = {value for value in values if value}
    if there and all(_whole(value) for value in there):
        return arrow.array([int(value) if value else None for value in values], arrow.int64())
    return arrow.array([value or None for value in values], arrow.string())


def _whole(value: str) -> bool:
    """Whether a number in its one spelling: 007 is none."""
    digits = value.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 18 and str(int(value)) == value
