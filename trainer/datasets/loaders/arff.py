"""Read a whole dense ARFF file, plain or gzipped, into one matrix."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.sources.arff import read_header, read_rows


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
