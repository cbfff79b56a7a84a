"""People whom the vault learned from publications that are under way: those of one that comes to nothing go again.

A publication may be gone on with days later, and its pseudonyms must then still be somebody's. So the vault knows its
people from the start, and notes beside each that nobody was sent anything of them yet.
"""

from __future__ import annotations

from collections.abc import Iterable

from edgeveil.trainer.pseudonyms.vault_file import VaultFile

TABLE = """
CREATE TABLE waiting (
  salt BLOB, publication TEXT NOT NULL, field TEXT NOT NULL, PRIMARY KEY (salt, publication)
) WITHOUT ROWID;
"""
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
