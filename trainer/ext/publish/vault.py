"""The vault: which random salt stands for which person, and who was sent a pseudonym of it.

What is published is the encrypted salt, so a row that is gone takes the way from pseudonym to person with it, and
back: the key's holder could try every name for ever if the name itself were encrypted. Names are in no row: a subject
is found by HMAC-SHA256 of field and identifier, and the identifier is sealed (AES-SIV), its salt as associated data.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.util.atomic import file_place, writing
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.ext.publish.master_key import Cipher, MasterKey, Scope, Step, normalised

# The file of a vault: SQLite with a write-ahead log, synchronous FULL, opened by one process at a time.
#
# A transaction is whole or not at all through a power cut. ``secure_delete`` overwrites what is deleted, but not what
# a row left behind when its page was split, which happens to one in a few dozen rows of a large file. So after a
# deletion the file is written anew and the log emptied; ``user_version`` says across a crash that this is still to do.
# What a disk or a backup keeps of overwritten blocks is not in its power.


# Exclusive: no one reads while the log is emptied. temp_store: the copy that VACUUM makes stays in memory. cache_size:
# 64 MiB, for salts are drawn in no order, and pages that do not fit are written to the log and read back many times.
_SETTINGS = (
    "locking_mode = EXCLUSIVE",
    "journal_mode = WAL",
    "synchronous = FULL",
    "secure_delete = ON",
    "temp_store = MEMORY",
    "cache_size = -65536",
)


class VaultFile:
    """An opened file, of mode 600 where it is new. Raises ``BadInput`` where it is locked, full or damaged."""

    def __init__(self, path: Path) -> None:
        self.path, self.is_new = Path(path), not os.path.lexists(path)
        with writing(self.path):
            os.close(os.open(file_place(self.path), os.O_RDWR | os.O_CREAT, 0o600))
        with self._said():
            self.base = sqlite3.connect(self.path, timeout=2, isolation_level=None)
        try:
            with self._said():
                for setting in _SETTINGS:
                    self.base.execute(f"PRAGMA {setting}")
                if self.base.execute("PRAGMA user_version").fetchone()[0]:
                    self._write_anew()
        except BaseException:
            self.base.close()
            raise

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise BadInput(
                    f"The vault {self.path} is in use by another command: nothing was done. Repeat this when that has "
                    "ended."
                ) from None
            raise BadInput(f"The vault {self.path} cannot be used ({reason(error)}): it is as it was before.") from None
        except sqlite3.DatabaseError:
            raise BadInput(f"{self.path} is no vault, or is damaged. Give another file, or take your backup.") from None

    @contextmanager
    def change(self) -> Iterator[None]:
        """A transaction: all of the block is lasting when it ends, or nothing where it raises."""
        with self._said():
            self.base.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.base.execute("COMMIT")
            finally:
                if self.base.in_transaction:
                    self.base.execute("ROLLBACK")

    def delete(self, statement: str, *values: bytes | str) -> None:
        """Delete rows within ``change``; ``forget`` after it leaves none of their bytes."""
        self.base.execute(statement, values)
        self.base.execute("PRAGMA user_version = 1")

    def forget(self) -> None:
        """Write the file anew, without what was deleted."""
        with self._said():
            self._write_anew()

    def _write_anew(self) -> None:
        self.base.execute("VACUUM")
        self.base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.base.execute("PRAGMA user_version = 0")  # last: until here the log has the row


# People whom the vault learned from publications that are under way: those of one that comes to nothing go again.
#
# A publication may be resumed days later, and its pseudonyms must then still be somebody's. So the vault knows its
# people from the start, and notes next to each that no one was sent anything of them yet.


_FORGET = """
DELETE FROM subject WHERE salt = ?1 AND NOT EXISTS (SELECT 1 FROM held WHERE salt = ?1)
  AND NOT EXISTS (SELECT 1 FROM waiting WHERE salt = ?1)
"""
_FORGET_FIELD = """
DELETE FROM field WHERE name = ?1 AND NOT EXISTS (SELECT 1 FROM publication WHERE field = ?1)
  AND NOT EXISTS (SELECT 1 FROM waiting WHERE field = ?1)
"""


class UnderWay:
    """The notes of an opened vault. ``publication`` is a name of its own for each."""

    def __init__(self, file: VaultFile) -> None:
        self._file = file

    def note(self, publication: str, field: str, salts: Iterable[bytes]) -> None:
        """These people are in it. Within a change of the vault."""
        self._file.base.executemany(
            "INSERT OR IGNORE INTO waiting VALUES (?, ?, ?)", ((salt, publication, field) for salt in salts)
        )

    def done(self, publication: str) -> None:
        """It was sent, and the vault notes who holds it. Within the same change."""
        self._file.base.execute("DELETE FROM waiting WHERE publication = ?", (publication,))

    def withdraw(self, publication: str) -> None:
        """It came to nothing: whom no other publication has goes, and their bytes from the vault's files."""
        base = self._file.base
        with self._file.change():
            people = base.execute("SELECT salt, field FROM waiting WHERE publication = ?", (publication,)).fetchall()
            if not people:
                return
            self._file.delete("DELETE FROM waiting WHERE publication = ?", publication)
            base.executemany(_FORGET, [(salt,) for salt, _ in people])
            base.executemany(_FORGET_FIELD, [(field,) for field in {field for _, field in people}])
        self._file.forget()


SALT = 16
ASKED = 500  # names in one query; SQLite before 3.32 takes 999 at most


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
                for statement in filter(str.strip, Path(__file__).with_name("vault.sql").read_text().split(";")):
                    self._base.execute(statement)
                self._base.execute("INSERT INTO vault VALUES (?)", (proof,))
            row = self._base.execute("SELECT proof FROM vault").fetchone()
        if row is None or not hmac.compare_digest(row[0], proof):
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

    def __exit__(self, kind: object, *_: object) -> None:
        unused = kind and self._file.is_new and not self._base.execute("SELECT count(*) FROM subject").fetchone()[0]
        self.close()
        for end in ("", "-wal", "-shm") if unused else ():  # what failed leaves no vault that no one is in
            Path(f"{self.path}{end}").unlink(missing_ok=True)

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
        row = self._base.execute("SELECT steps FROM field WHERE name = ?", (field,)).fetchone()
        if row is None:
            known = ", ".join(f'"{name}"' for (name,) in self._base.execute("SELECT name FROM field")) or "none"
            raise BadInput(f'The vault {self.path} has no field "{field}"; it has {known}.')
        return cast("tuple[Step, ...]", tuple(row[0].split()))

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
        row = self._base.execute("SELECT salt FROM subject WHERE name = ?", (self._name(field, identifier),)).fetchone()
        if row is None:
            raise BadInput("The vault knows no such subject of this field: it was never published, or it was erased.")
        return bytes(row[0])

    def knows(self, salt: bytes) -> bool:
        """Whether the salt's row is still there."""
        return self._base.execute("SELECT 1 FROM subject WHERE salt = ?", (salt,)).fetchone() is not None

    def identifier(self, field: str, salt: bytes) -> str:
        """Whose salt it is. Raises ``BadInput`` where the subject was erased."""
        row = self._base.execute("SELECT sealed FROM subject WHERE salt = ?", (salt,)).fetchone()
        if row is None:
            raise BadInput("This subject was erased: no one can go from the pseudonym to the person.")
        return self._seal.decrypt(row[0], [field.encode(), salt]).decode()

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


# One subject: the publications that hold it, under which pseudonym, and its erasure.


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
    publications = vault.holding(salt)
    return [Holding(one.title, *one.scope, Cipher(key, one.scope).seal(salt)) for one in publications]


def erase(vault: Vault, key: MasterKey, field: str, identifier: str, *, first: Callable[[list[Holding]], None]) -> None:
    """Erase a subject; ``first`` is given what is held before that, for afterwards no one can find it."""
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


# A table's pseudonyms in a new epoch: what leaked under the old one joins with nothing that comes after.


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
    sealed = {one: new.seal(value) for one, value in values.items()}
    renewed = [sealed[one] for one in pseudonyms]
    if vault is not None:
        title = hashlib.sha256("\n".join(renewed).encode()).hexdigest()
        vault.record({Publication(title, scope._replace(epoch=to)): values.values()})
    return renewed
