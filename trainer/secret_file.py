"""Files that hold a secret: read by their owner alone."""

from __future__ import annotations

import stat
from pathlib import Path

from edgeveil.edge_runtime.errors import BadInput, reason


def read(path: Path, *, what: str, cure: str) -> bytes:
    """The bytes of a secret's file; ``what`` names it in errors, ``cure`` says what to do where it cannot be read.

    Raises ``BadInput`` where it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{what} {path} cannot be read: {reason(error)}. {cure}") from None


def refuse_shared(path: Path, *, what: str) -> None:
    """Raises ``BadInput`` where others may read the file."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise BadInput(
            f"{what} {path} can be read by others (mode {mode:o}; 600 was expected). Run chmod 600 on it, or make a "
            "new one if others may have it."
        )
