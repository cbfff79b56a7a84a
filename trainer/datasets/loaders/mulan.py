"""Files of the Mulan collection below EDGEVEIL_DATA, checked by the SHA-256 of their ARFF text."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.loaders.arff import arff_bytes, parse_arff


def read_mulan(files: Mapping[str, str], origin: str) -> tuple[list[str], np.ndarray]:
    """Attribute names and values (rows, attributes) of ``files``, one below the other. Raises ``BadInput``.

    ``files`` maps FOLDER/NAME to the SHA-256 of the unpacked text; EDGEVEIL_DATA has it or FOLDER/NAME.gz. ``origin``
    says where to get them.
    """
    root = os.environ.get("EDGEVEIL_DATA")
    if not root:
        names = " and ".join(Path(place).name for place in files)
        folder = Path(next(iter(files))).parent
        raise BadInput(f"EDGEVEIL_DATA is not set: put {names} ({origin}) into FOLDER/{folder} and set it to FOLDER.")
    attributes: list[str] = []
    parts = []
    for place, digest in files.items():
        plain = Path(root) / place
        path = plain if plain.is_file() else plain.with_name(plain.name + ".gz")
        if not path.is_file():
            raise BadInput(f"{plain} (or .gz) was expected; there is no such file. Get it {origin}.")
        data = arff_bytes(path)
        if hashlib.sha256(data).hexdigest() != digest:
            raise BadInput(f"{path} is not the published file (its SHA-256 differs). Get it again {origin}.")
        attributes, values = parse_arff(data, str(path))
        parts.append(values)
    return attributes, np.vstack(parts)
