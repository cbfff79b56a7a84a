"""Files of the Mulan collection below EDGEVEIL_DATA, checked by the SHA-256 of their ARFF text."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.loaders.arff import arff_bytes, parse_arff


def read_mulan(folder: str, files: dict[str, str], origin: str) -> tuple[list[str], np.ndarray]:
    """Names and values (rows, attributes) of ``files`` (name to SHA-256 of the unpacked text), one below the other.

    Each is looked for in EDGEVEIL_DATA/``folder``, as ``NAME`` or ``NAME.gz``. ``origin`` says where they come from.
    """
    root = os.environ.get("EDGEVEIL_DATA")
    if not root:
        raise BadInput(
            f"EDGEVEIL_DATA is not set: put {' and '.join(files)} ({origin}) into FOLDER/{folder} and set it to FOLDER."
        )
    names: list[str] = []
    parts = []
    for name, digest in files.items():
        place = Path(root) / folder / name
        packed = place.with_name(name + ".gz")
        path = place if place.is_file() else packed
        if not path.is_file():
            raise BadInput(f"{place} (or .gz) is not there; it is {origin}.")
        data = arff_bytes(path)
        if hashlib.sha256(data).hexdigest() != digest:
            raise BadInput(
                f"{path} is not the file that was published (its SHA-256 differs); fetch it again: {origin}."
            )
        these, values = parse_arff(data, str(path))
        if names and these != names:
            raise BadInput(f"{path} has other attributes than {next(iter(files))}; fetch both again: {origin}.")
        names = these
        parts.append(values)
    return names, np.vstack(parts)
