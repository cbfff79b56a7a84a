"""Which column of a table names its frames, found by what is in both: before anything is planned."""

from __future__ import annotations

from pathlib import Path

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.columns import Cells
from edgeveil.trainer.publish.work.archive import FrameNames, matched


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
