"""One subject: the publications that hold it, under which pseudonym, and its erasure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.pseudonyms.master_key import MasterKey
from edgeveil.trainer.pseudonyms.normalise import normalised
from edgeveil.trainer.pseudonyms.pseudonym import Cipher
from edgeveil.trainer.pseudonyms.vault import Vault


@dataclass(frozen=True)
class Holding:
    """A publication that holds the subject: its title is the SHA-256 of its statement, or of a rotated column."""

    publication: str
    recipient: str
    field: str
    epoch: int
    pseudonym: str

    def request(self) -> str:
        """What to ask of the recipient after an erasure."""
        return (
            f"{self.recipient}: please delete all rows with the pseudonym {self.pseudonym} in the column of "
            f"{self.field}, epoch {self.epoch}, of publication {self.publication[:16]}, and all copies of them."
        )

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def holdings(vault: Vault, key: MasterKey, field: str, identifier: str) -> list[Holding]:
    """Where the subject is held, in the order of publication. Raises ``BadInput`` for one that is not known."""
    salt = vault.salt(field, spelled(vault, field, identifier))
    found = vault.holding(salt)
    return [Holding(one.title, *one.scope, Cipher(key, one.scope).seal(salt)) for one in found]


def erase(vault: Vault, key: MasterKey, field: str, identifier: str, *, first: Callable[[list[Holding]], None]) -> None:
    """Erase a subject; ``first`` is given what is held before that, for afterwards nobody can find it."""
    first(holdings(vault, key, field, identifier))
    vault.erase(field, spelled(vault, field, identifier))


def spelled(vault: Vault, field: str, identifier: str) -> str:
    """An identifier in the one spelling of its field. Raises ``BadInput``."""
    steps = vault.steps(field)
    try:
        return normalised(identifier, steps)
    except ValueError as error:
        raise BadInput(
            f"An identifier was expected that {list(steps)} can normalise; in this one, {error}. Correct it."
        ) from None
