"""A published table with its pseudonyms in another epoch."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.storage.atomic import atomic_path
from edgeveil.trainer.pseudonyms.master_key import MasterKey
from edgeveil.trainer.pseudonyms.pseudonym import Scope
from edgeveil.trainer.pseudonyms.rotation import rotated
from edgeveil.trainer.pseudonyms.vault import Vault
from edgeveil.trainer.publish import table_files
from edgeveil.trainer.recipe.messages import nearest
from edgeveil.trainer.results import locked, require_free


def rotate(
    table: Path, column: str, out: Path, key: MasterKey, scope: Scope, *, to: int, vault: Vault | None = None
) -> None:
    """Write ``out``; where that fails, the vault is as it was. Raises ``BadInput``."""
    table_files.kind_of(out)
    cells = table_files.read(table)
    if column not in cells:
        raise BadInput(f'{table} has no column "{column}"{nearest(column, cells)}. Give the column of its pseudonyms.')
    with locked(out, "pseudonym rotate"):
        require_free(out, replace=False)
        with vault.change() if vault is not None else nullcontext():
            cells[column] = rotated(cells[column], key, scope, to=to, vault=vault)
            with atomic_path(out) as temporary:
                table_files.write(Path(temporary), cells)
