"""Files of the Mulan collection: ARFF text below EDGEVEIL_DATA, checked by its SHA-256; vectors with several labels."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.sources.arff import read_header, read_rows
from edgeveil.trainer.datasets.base import Known, Labels
from edgeveil.trainer.datasets.readings import Readings, check_attributes


def arff_bytes(path: Path) -> bytes:
    """The text of an ARFF file, unpacked if its name ends with ``.gz``. Raises ``BadInput``."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path} cannot be read ({reason(error)}); give an .arff or .arff.gz file.") from None


def parse_arff(data: bytes, name: str) -> tuple[list[str], np.ndarray]:
    """Attribute names and values (rows, attributes) float64 of ARFF text. Raises ``BadInput`` with name and line."""
    try:
        lines = enumerate(io.StringIO(data.decode("utf-8")), start=1)
        attributes = read_header(lines)
        # Rows go into one flat buffer: a list of lists of floats would be ten times its size.
        flat = np.fromiter((value for row in read_rows(attributes, lines) for value in row), np.float64)
    except UnicodeDecodeError:
        raise BadInput(f"{name} is not UTF-8 text; convert it first.") from None
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from None
    if not len(flat):
        raise BadInput(f"{name} has no rows after @data.")
    return [attribute.name for attribute in attributes], flat.reshape(-1, len(attributes))


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


# Feature vectors with several numeric labels each: what a linear cleaner is fitted on.


@dataclass(frozen=True)
class MultiTarget:
    """Vectors x (N, features) and labels (N, labels), both float64."""

    name: str
    x: np.ndarray
    labels: np.ndarray
    label_names: tuple[str, ...]

    def readings(self, *, wanted: int, target: str, sensitive: str) -> Readings:
        """For a recipe: the first ``wanted`` labels are kept, the others are confidential; y and z are two as classes.

        ``target`` names a wanted label and ``sensitive`` a confidential one, in upper or lower case. The classes of a
        label are its smallest value (absent) and all others (present). Raises ``BadInput``.
        """
        names, count = [name.lower() for name in self.label_names], self.labels.shape[1]
        if not 1 <= wanted < count:
            raise BadInput(f"{self.name} has {count} labels: 1 to {count - 1} of them can be wanted, not {wanted}.")
        target, sensitive = target.lower(), sensitive.lower()
        check_attributes(target, sensitive, targets=names[:wanted], others=names[wanted:])
        present = (self.labels > self.labels.min(axis=0)).astype(np.int64)
        known = {name: Known(present[:, number], ("absent", "present")) for number, name in enumerate(names)}
        labels = Labels(self.labels, wanted)
        return Readings.from_arrays(self.x.astype(np.float32), known, (target, sensitive), "vector", labels=labels)
