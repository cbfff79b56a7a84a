"""The file of a vault: SQLite with a write-ahead log, synchronous FULL, opened by one process at a time.

A transaction is whole or not at all through a power cut. ``secure_delete`` overwrites what is deleted, but not what a
row left behind when its page was split, which happens to one in a few dozen rows of a large file. So after a deletion
the file is written anew and the log emptied; ``user_version`` says across a crash that this is still to do. What a disk
or a backup keeps of overwritten blocks is not in its power.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.storage.atomic import file_place, writing

# Exclusive: nobody reads while the log is emptied. temp_store: the copy that VACUUM makes stays in memory. cache_size:
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
        self.path = Path(path)
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
