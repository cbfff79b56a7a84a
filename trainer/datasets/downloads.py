"""Downloaded data files: found below EDGEVEIL_DATA, and used only with the right checksum."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from edgeveil.edge_runtime.errors import BadInput

VARIABLE = "EDGEVEIL_DATA"


def checked_path(name: str, *, sha256: str, source: str) -> Path:
    """The file ``name`` (like ``"ujiindoorloc/trainingData.csv.gz"``) below the folder that EDGEVEIL_DATA names.

    ``source`` ends the sentence "Get it from ..." of an error. Raises ``BadInput`` if the variable is not set, or the
    file is missing or another one.
    """
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise BadInput(
            f"The environment variable {VARIABLE} must name the folder that holds {name}; it is not set. "
            f"Get the file from {source}."
        )
    path = Path(folder).expanduser() / name
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise BadInput(
            f"Expected {name} in the folder of {VARIABLE}; got {error.strerror or error}. Get it from {source}."
        ) from None
    if found != sha256:
        raise BadInput(f"Expected {name} with SHA-256 {sha256}; got {found}. Get it again from {source}.")
    return path
