"""The vault: which random salt stands for which person, and who was sent a pseudonym of it.

What is published is the encrypted salt, so a row that is gone takes the way from pseudonym to person with it, and
back: the key's holder could try every name for ever if the name itself were encrypted. Names are in no row: a subject
is found by HMAC-SHA256 of field and identifier, and the identifier is sealed (AES-SIV), its salt as associated data.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.pseudonyms.master_key import MasterKey
from edgeveil.trainer.pseudonyms.normalise import Step
from edgeveil.trainer.pseudonyms.pseudonym import Scope
from edgeveil.trainer.pseudonyms.under_way import TABLE, UnderWay
from edgeveil.trainer.pseudonyms.vault_file import VaultFile

SALT = 16
ASKED = 500  # names in one query; SQLite of before 3.32 takes 999 at most
TABLES = """
CREATE TABLE vault (proof BLOB NOT NULL);
CREATE TABLE field (name TEXT PRIMARY KEY, steps TEXT NOT NULL);
CREATE TABLE subject (name BLOB PRIMARY KEY, salt BLOB NOT NULL UNIQUE, sealed BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE publication (
  number INTEGER PRIMARY KEY, title TEXT NOT NULL, recipient TEXT NOT NULL, field TEXT NOT NULL, epoch INTEGER NOT NULL
);
CREATE TABLE held (salt BLOB, publication INTEGER, PRIMARY KEY (salt, publication)) WITHOUT ROWID;
"""


class Publication(NamedTuple):
    """A table that was sent: its title (a hash), and the scope of its pseudonyms."""

    title: str
    scope: Scope


class Vault:
    """An opened vault; ``under_way`` has notes of publications that are not done.

    Every method raises ``BadInput`` where the file is locked, full or damaged.
    """

    def __init__(self, path: Path, key: MasterKey) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV

        self.path = Path(path)
        self._names, self._seal = key.derive("vault names"), AESSIV(key.derive("vault seal"))
        self._file = VaultFile(self.path)
        self._base = self._file.base
        self.under_way = UnderWay(self._file)
        try:
            self._prove(key.derive("vault proof", size=32))
        except BaseException:
            self.close()
            raise

    def _prove(self, proof: bytes) -> None:
        with self.change():
            if not self._base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                for statement in filter(str.strip, f"{TABLES}{TABLE}".split(";")):
                    self._base.execute(statement)
                self._base.execute("INSERT INTO vault VALUES (?)", (proof,))
            found = self._base.execute("SELECT proof FROM vault").fetchone()
        if found is None or not hmac.compare_digest(found[0], proof):
            raise BadInput(f"The vault {self.path} is of another key. Give the key that it was made with.")

    @contextmanager
    def change(self) -> Iterator[None]:
        """A transaction: all of the block is lasting when it ends, or nothing where it raises."""
        with self._file.change():
            yield

    def close(self) -> None:
        """Let others open it."""
        self._base.close()

    def __enter__(self) -> Vault:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def normalise_as(self, field: str, steps: Sequence[Step]) -> None:
        """Fix how identifiers of a field are normalised. Within ``change``; raises ``BadInput`` where it was otherwise,
        for one person would be two then."""
        self._base.execute("INSERT OR IGNORE INTO field VALUES (?, ?)", (field, " ".join(steps)))
        if (was := self.steps(field)) != tuple(steps):
            raise BadInput(
                f'The field "{field}" of the vault {self.path} is normalised by {list(was)}, and {list(steps)} came: '
                "one person would become two. Write the former into the plan, or name another field."
            )

    def steps(self, field: str) -> tuple[Step, ...]:
        """How identifiers of a field are normalised. Raises ``BadInput`` for a field that nothing was published of."""
        found = self._base.execute("SELECT steps FROM field WHERE name = ?", (field,)).fetchone()
        if found is None:
            known = ", ".join(f'"{name}"' for (name,) in self._base.execute("SELECT name FROM field")) or "none"
            raise BadInput(f'The vault {self.path} has no field "{field}"; it has {known}.')
        return cast("tuple[Step, ...]", tuple(found[0].split()))

    def salts(self, field: str, identifiers: Sequence[str]) -> list[bytes]:
        """The salt of each normalised identifier; those not known yet get one. Within ``change``."""
        named = {self._name(field, one): one for one in dict.fromkeys(identifiers)}
        salts = {named[name]: salt for name, salt in self._found(list(named))}
        new = [(name, one) for name, one in sorted(named.items()) if one not in salts]
        drawn = os.urandom(SALT * len(new))  # one call: a call for each salt took a fifth of the time
        salts |= {one: drawn[SALT * at : SALT * (at + 1)] for at, (_, one) in enumerate(new)}
        self._base.executemany(
            "INSERT INTO subject VALUES (?, ?, ?)",
            ((name, salts[one], self._sealed(one, field, salts[one])) for name, one in new),
        )
        return [salts[one] for one in identifiers]

    def _found(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Name and salt of those that are known."""
        for start in range(0, len(names), ASKED):
            some = names[start : start + ASKED]
            marks = ", ".join("?" * len(some))
            yield from self._base.execute(f"SELECT name, salt FROM subject WHERE name IN ({marks})", some)  # noqa: S608

    def salt(self, field: str, identifier: str) -> bytes:
        """The salt of one that is known. Raises ``BadInput`` where it is not, or no more."""
        found = self._base.execute(
            "SELECT salt FROM subject WHERE name = ?", (self._name(field, identifier),)
        ).fetchone()
        if found is None:
            raise BadInput("The vault knows no such subject of this field: it was never published, or it was erased.")
        return bytes(found[0])

    def knows(self, salt: bytes) -> bool:
        """Whether the salt's row is still there."""
        return self._base.execute("SELECT 1 FROM subject WHERE salt = ?", (salt,)).fetchone() is not None

    def identifier(self, field: str, salt: bytes) -> str:
        """Whose salt it is. Raises ``BadInput`` where the subject was erased."""
        found = self._base.execute("SELECT sealed FROM subject WHERE salt = ?", (salt,)).fetchone()
        if found is None:
            raise BadInput("This subject was erased: nobody can go from the pseudonym to the person.")
        return self._seal.decrypt(found[0], [field.encode(), salt]).decode()

    def record(self, publications: Mapping[Publication, Iterable[bytes]]) -> None:
        """Note who was sent what: publication -> salts that it holds. Within ``change``."""
        for one, salts in publications.items():
            number = self._base.execute(
                "INSERT INTO publication (title, recipient, field, epoch) VALUES (?, ?, ?, ?)", (one.title, *one.scope)
            ).lastrowid
            self._base.executemany("INSERT OR IGNORE INTO held VALUES (?, ?)", ((salt, number) for salt in salts))

    def has(self, title: str) -> bool:
        """Whether a publication of this title was noted."""
        return self._base.execute("SELECT 1 FROM publication WHERE title = ?", (title,)).fetchone() is not None

    def holding(self, salt: bytes) -> list[Publication]:
        """The publications that hold a pseudonym of the subject, in the order of their making."""
        rows = self._base.execute(
            "SELECT title, recipient, field, epoch FROM publication JOIN held ON number = publication "
            "WHERE salt = ? ORDER BY number",
            (salt,),
        )
        return [Publication(title, Scope(*scope)) for title, *scope in rows]

    def erase(self, field: str, identifier: str) -> None:
        """Delete all that is known of a subject, and its bytes from the vault's files. Raises ``BadInput``."""
        salt = self.salt(field, identifier)
        with self.change():
            self._file.delete("DELETE FROM subject WHERE salt = ?", salt)
            for table in ("held", "waiting"):
                self._file.delete(f"DELETE FROM {table} WHERE salt = ?", salt)  # noqa: S608
        self._file.forget()

    def _name(self, field: str, identifier: str) -> bytes:
        return hmac.digest(self._names, f"{len(field)}:{field}:{identifier}".encode(), "sha256")

    def _sealed(self, identifier: str, field: str, salt: bytes) -> bytes:
        return self._seal.encrypt(identifier.encode(), [field.encode(), salt])
