"""Pass 3: one part, gathered from all chunks and put in the order of its rows' keyed hashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.publish.table_files import pyarrow
from edgeveil.trainer.publish.work import exactly_once
from edgeveil.trainer.publish.work.passes.chunk_work import chunk_path
from edgeveil.trainer.publish.work.passes.outcome import told
from edgeveil.trainer.publish.work.passes.parquet_bytes import opened, packed
from edgeveil.trainer.publish.work.passes.row_table import PLACE, PREFIX, ROW, order_of, place_values

LEFT_OUT = "left-out.npy"


def part_name(number: int) -> str:
    """The file of a part."""
    return f"part-{number:05d}.parquet"


@told
def work_part(*, out: str, work: str, number: int, chunks: int, texts: int) -> dict[str, Any]:
    """Make one part without the rows of ``LEFT_OUT``; ``texts`` columns of the table come first. Returns its entry."""
    arrow = pyarrow()
    left_out = np.load(Path(work) / LEFT_OUT)
    pieces = [_piece(chunk_path(Path(work), chunk), number, left_out) for chunk in range(chunks)]
    table = arrow.concat_tables(pieces).combine_chunks()
    order = order_of(place_values(table.column(PREFIX + PLACE)))
    table = table.take(order).drop_columns([PREFIX + PLACE, PREFIX + ROW]).replace_schema_metadata(None)
    data = packed(table, table.column_names[:texts], [table.num_rows])
    path = Path(out) / part_name(number)
    return {"name": path.name, "sha256": exactly_once.make(path, Path(work), data), "rows": table.num_rows}


def _piece(chunk: Path, number: int, left_out: np.ndarray) -> Any:
    """The rows of a chunk that are of this part: one row group, or none."""
    with opened(chunk) as file:
        counts = list(map(int, file.metadata.metadata[b"parts"].split()))
        if not counts[number]:
            return file.schema_arrow.empty_table()
        table = file.read_row_group(sum(count > 0 for count in counts[:number]), use_threads=False)
    if len(left_out):
        table = table.filter(pyarrow().array(~np.isin(table.column(PREFIX + ROW).to_numpy(), left_out)))
    return table
