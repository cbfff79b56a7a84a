"""A table's pseudonyms in a new epoch: what leaked under the old one joins with nothing that comes after."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.formats.plurals import counted
from edgeveil.trainer.pseudonyms.master_key import MasterKey
from edgeveil.trainer.pseudonyms.pseudonym import Cipher, Scope
from edgeveil.trainer.pseudonyms.vault import Publication, Vault


def rotated(
    pseudonyms: Sequence[str], key: MasterKey, scope: Scope, *, to: int, vault: Vault | None = None
) -> list[str]:
    """From old pseudonym to salt to new one; no identity is touched.

    The vault notes the new publication: call it within a change of it. Raises ``BadInput`` with the row of what is no
    pseudonym of the scope; and where the vault has erased some, for a table without them must be counted again.
    """
    if to == scope.epoch:
        raise BadInput(f"Another epoch than {to} was expected: a rotation goes from one epoch to another.")
    old, new = Cipher(key, scope), Cipher(key, scope._replace(epoch=to))
    values: dict[str, bytes] = {}
    for row, one in enumerate(pseudonyms):
        if one not in values:
            try:
                values[one] = old.open(one)
            except BadInput as error:
                raise BadInput(f"Row {row + 1}: {error}") from None
    if vault is not None:
        gone = {one for one, value in values.items() if not vault.knows(value)}
        if gone:
            raise BadInput(
                f"{counted(sum(one in gone for one in pseudonyms), 'row is', 'rows are')} of people who were "
                f"erased, and without them k must "
                "be counted again: publish the table anew with the new epoch in its plan, without these people."
            )
    made = {one: new.seal(value) for one, value in values.items()}
    found = [made[one] for one in pseudonyms]
    if vault is not None:
        title = hashlib.sha256("\n".join(found).encode()).hexdigest()
        vault.record({Publication(title, scope._replace(epoch=to)): values.values()})
    return found
