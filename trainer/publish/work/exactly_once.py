"""A file that is made once: another that comes later never replaces it, however often the work is broken off.

It is written under a name of its own, synced, and given a receipt, a name that holds its SHA-256. Then it gets its own
name with ``os.link``, which never replaces. A file counts as made if it has what its receipt says.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.storage.atomic import file_place, write_atomic, writing


def made(path: Path, receipts: Path) -> str | None:
    """The SHA-256 of the file at ``path`` if it is whole; None where it is not there, or is not what was made."""
    if path.is_symlink():
        raise BadInput(f"{path} is a link, and a file was expected: remove it.")
    file_place(path)
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None
    return digest if _receipt(path, receipts, digest).exists() else None


def make(path: Path, receipts: Path, data: bytes) -> str:
    """Make the file and return its SHA-256; that of the one which is there, where another was made first.

    Raises ``WriteFailed``: then nothing is at ``path`` that was not before.
    """
    digest = prepare(path, receipts, data)
    return digest if link(path, receipts, digest) else made(path, receipts) or digest


def prepare(path: Path, receipts: Path, data: bytes) -> str:
    """Everything but its name: the data, on the disk, under their receipt. Returns their SHA-256."""
    digest = hashlib.sha256(data).hexdigest()
    write_atomic(_receipt(path, receipts, digest), data, mode=0o644)
    with writing(path):
        sync_folder(receipts)
    return digest


def link(path: Path, receipts: Path, digest: str) -> bool:
    """Give what was prepared its name; False where another has it. A damaged file of that name makes room."""
    if path.exists() and made(path, receipts) is None:
        path.unlink()
    linked = False
    with writing(path), suppress(FileExistsError):
        os.link(_receipt(path, receipts, digest), path)
        linked = True
    with writing(path):
        sync_folder(path.parent)
    return linked


def sync_folder(folder: Path) -> None:
    """Make names in it last. Raises ``OSError``."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _receipt(path: Path, receipts: Path, digest: str) -> Path:
    return receipts / f"{path.name}.{digest}"
