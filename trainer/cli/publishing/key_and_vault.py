"""The master key and the vault that a command names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli.common import asked_passphrase

if TYPE_CHECKING:
    from edgeveil.trainer.pseudonyms.master_key import MasterKey
    from edgeveil.trainer.pseudonyms.vault import Vault


def opened_key(path: Path, passphrase_file: Path | None) -> MasterKey:
    """The master key, its passphrase asked for where it needs one. Raises ``BadInput``."""
    from edgeveil.trainer.pseudonyms.master_key import is_sealed, open_key

    return open_key(path, passphrase=asked_passphrase(passphrase_file) if is_sealed(path) else None)


@contextmanager
def opened_vault(path: Path | None, key: MasterKey, *, new: bool = True) -> Iterator[Vault | None]:
    """The vault while the block runs, or None for no path; without ``new`` it must exist. Raises ``BadInput``."""
    if path is None:
        yield None
        return
    from edgeveil.trainer.pseudonyms.vault import Vault

    if not new and not path.is_file():
        raise BadInput(f"There is no vault at {path}: name the one that edgeveil publish table was given.")
    with Vault(path, key) as vault:
        yield vault
