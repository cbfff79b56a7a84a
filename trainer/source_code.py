"""Which code made a result: what is kept of one version is not taken by another."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path


@functools.cache
def code_of(folder: Path) -> bytes:
    """A hash of the Python sources in ``folder``."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()
