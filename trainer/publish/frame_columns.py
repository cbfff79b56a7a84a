"""Which column of a table names the frames of recordings, found by what is in both: before anything is planned."""

from __future__ import annotations

from pathlib import Path

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sources.images import list_pictures
from edgeveil.edge_runtime.sources.npz import count_rows
from edgeveil.trainer.datasets.columns import Cells
from edgeveil.trainer.publish.archive.recordings import PARQUET, FrameNames, matched, open_parquet


def names_of(uri: str) -> FrameNames:
    """What a table calls the frames, without a bundle: their files in the folder, or numbers. Raises ``BadInput``."""
    kind, _, where = uri.partition(":")
    if kind == "images":
        return list_pictures(where)[1]
    if uri.startswith(PARQUET):
        with open_parquet(Path(where)) as file:
            return range(file.metadata.num_rows)
    return range(count_rows(where))


def frame_columns(table: Path, cells: Cells, names: FrameNames) -> list[str]:
    """The columns that name every frame once, in the table's order.

    Raises ``BadInput`` where none does: by row or frame, where a column names half of them at least.
    """
    wanted = set(map(str, names))
    shared = {column: len(wanted.intersection(values)) for column, values in cells.items()}
    whole = [column for column, many in shared.items() if many == len(wanted) == len(cells[column])]
    if whole:
        return whole
    nearest = max(shared, key=shared.__getitem__)
    if 2 * shared[nearest] >= len(wanted):
        matched(cells[nearest], names, nearest)
    what = f"numbers from 0 to {len(wanted) - 1}" if isinstance(names, range) else "names of files in the folder"
    raise BadInput(f"No column of {table.name} says which frame is a row's: expected one with {what}. Add it.")
