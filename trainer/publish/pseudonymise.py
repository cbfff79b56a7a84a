"""The columns of pseudonyms of a publication: each distinct identifier is encrypted once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.formats.plurals import counted
from edgeveil.trainer.pseudonyms.master_key import MasterKey
from edgeveil.trainer.pseudonyms.pseudonym import Cipher, Scope, padded
from edgeveil.trainer.pseudonyms.vault import Vault
from edgeveil.trainer.publish import reader
from edgeveil.trainer.publish.actions import Pseudonym
from edgeveil.trainer.publish.plan import Plan


@dataclass(frozen=True)
class Pseudonyms:
    """``columns`` (published rows,) of text, and the salts of the vault that each scope holds now."""

    columns: Mapping[str, Sequence[str]]
    salts: Mapping[Scope, Sequence[bytes]]


def require_vault(plan: Plan, vault: object) -> None:
    """Raise ``BadInput`` where the plan asks for a vault and there is none, or the reverse."""
    vaulted = [name for name, one in plan.of(Pseudonym).items() if one.mode == "vault"]
    if vaulted and vault is None:
        raise BadInput(
            f'"{vaulted[0]}" has mode = "vault": name the vault with --vault; it is made where there is none.'
        )
    if not vaulted and vault is not None:
        raise BadInput('A vault was given and no column of the plan has mode = "vault": leave out --vault.')


def pseudonymise(
    plan: Plan, names: Mapping[str, Sequence[str]], key: MasterKey, recipient: str, vault: Vault | None
) -> Pseudonyms:
    """Pseudonyms of normalised ``names`` (published rows,), column by column; within a change of the vault."""
    columns: dict[str, Sequence[str]] = {}
    salts: dict[Scope, Sequence[bytes]] = {}
    for name, asked in plan.of(Pseudonym).items():
        scope = Scope(recipient, asked.field or name, asked.epoch)
        cipher = Cipher(key, scope)
        distinct = list(dict.fromkeys(names[name]))
        if asked.mode == "vault" and vault is not None:
            vault.normalise_as(scope.field, asked.normalise)
            salts[scope] = vault.salts(scope.field, distinct)
            made = dict(zip(distinct, map(cipher.seal, salts[scope]), strict=True))
        else:
            made = {one: cipher.seal(padded(one)) for one in distinct}
        columns[name] = [made[one] for one in names[name]]
    return Pseudonyms(columns, salts)


def salts_of(plan: Plan, paths: Sequence[Path], key: MasterKey, recipient: str) -> dict[Scope, set[bytes]]:
    """The salts of the vault whose pseudonyms stand in files."""
    salts = {}
    for name, one in plan.of(Pseudonym).items():
        if one.mode == "vault":
            scope = Scope(recipient, one.field or name, one.epoch)
            cipher = Cipher(key, scope)
            salts[scope] = {cipher.open(cell) for cell in set(reader.columns_of(paths, [name])[name])}
    return salts


def require_known(vault: Vault, salts: Mapping[Scope, set[bytes]]) -> None:
    """Raise ``BadInput`` where some of the people in the parts were erased since they were made."""
    gone = sum(not vault.knows(salt) for held in salts.values() for salt in held)
    if gone:
        raise BadInput(
            f"{counted(gone, 'person was', 'people were')} erased since this publication was begun: nothing was "
            "published. Take their rows and frames away, and publish the rest anew."
        )
