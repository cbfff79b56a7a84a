"""A user's own table: ``csv:FILE`` or ``parquet:FILE``, one sample a row, its columns named by the recipe.

The columns that are neither y, z, subject, session nor left out are the features of x, float32, in the file's order.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.columns import Table, listed, read_table
from edgeveil.trainer.datasets.loaders.npz import checked_samples, class_numbers
from edgeveil.trainer.datasets.readings import Readings
from edgeveil.trainer.recipe.data_section import Columns


def load(kind: str, path: Path, columns: Columns) -> Readings:
    """Read and check a table. Raises ``BadInput``."""
    table = read_table(kind, path)
    y, y_names = classes(table, columns.target or "", "target")
    z, z_names = classes(table, columns.sensitive, "sensitive")
    subject, session = units(table, columns)
    x = features(table, columns)
    return Readings(x, y, z, y_names, z_names, "vector", subject=subject, session=session)


def classes(table: Table, column: str, role: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Class numbers (rows,) and their names of the column for ``role``. Raises ``BadInput``."""
    return class_numbers(table.classes(column, f"data.columns.{role}"), column, table.rows, table.path)


def units(table: Table, columns: Columns) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The numbers (rows,) of subjects and of sessions; None where no column says them. Raises ``BadInput``."""
    return (
        None if columns.subject is None else classes(table, columns.subject, "subject")[0],
        None if columns.session is None else classes(table, columns.session, "session")[0],
    )


def features(table: Table, columns: Columns) -> np.ndarray:
    """x (rows, features) float32. Raises ``BadInput`` for a feature of text or with cells missing."""
    roles = {columns.target, columns.sensitive, columns.subject, columns.session}
    for name in columns.leave_out or ():
        table.column(name, "data.columns.leave_out")
    names = [name for name in table.columns if name not in roles and name not in (columns.leave_out or ())]
    if not names:
        raise BadInput(f"{table.path}: no column is left for x: all {len(table.columns)} have another role.")
    words = [name for name in names if not table.columns[name].is_number]
    if words:
        whose = "" if columns.subject is not None else " What says whose a row is goes to --subject."
        raise BadInput(
            f"{table.path}: x takes numbers, and {listed(words)} hold{'s' if len(words) == 1 else ''} text"
            f"{table.columns[words[0]].first_text()}. Correct it, leave out with "
            f"{' '.join(f'--leave-out {name!r}' for name in words[:3])}, or encode as numbers.{whose}"
        )
    gone = {name: int(table.columns[name].missing.sum()) for name in names if table.columns[name].missing.any()}
    if gone:
        worst = max(gone, key=lambda name: gone[name])
        raise BadInput(
            f'{table.path}: {len(gone)} of {len(names)} features have empty cells, "{worst}" {gone[worst]} of '
            f"{table.rows} rows. Fill them, drop these rows, or leave the columns out."
        )
    return checked_samples(
        np.stack([table.columns[name].values for name in names], axis=1).astype(np.float32), table.path
    )
