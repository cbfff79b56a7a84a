"""Recordings: which frames there are, by what their table calls them, and their keyed fingerprint."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.manifest.sensor import expected
from edgeveil.edge_runtime.sources import open_source
from edgeveil.edge_runtime.sources.base import Source
from edgeveil.trainer.publish.work.parquet_frames import ParquetFrames

NPZ, PARQUET = "npz:", "parquet:"
_READ = 1 << 20


def uri_of(text: str) -> str:
    """A source for ``--in``: a folder of pictures, npz:FILE, or FILE.parquet. Raises ``BadInput``.

    Its path is absolute: workers may have another folder.
    """
    if text.startswith(NPZ):
        return NPZ + str(Path(text.removeprefix(NPZ)).absolute())
    path = Path(text).absolute()
    if path.is_dir():
        return f"images:{path}"
    if path.suffix.lower() == ".parquet":
        return PARQUET + str(path)
    raise BadInput(
        f"Recordings were expected as a folder of pictures, npz:FILE or FILE.parquet; came {text}. Name one of them."
    )


def open_frames(uri: str, manifest: Manifest) -> Source:
    """The frames in their order, as the bundle takes them. Raises ``BadInput``."""
    if uri.startswith(PARQUET):
        return ParquetFrames(Path(uri.removeprefix(PARQUET)), expected(manifest.input, manifest.capture))
    return open_source(uri, manifest.input, manifest.capture)


def matched(cells: Sequence[str], source: Source, column: str) -> np.ndarray:
    """The number of each row's frame (rows,), from 0.

    Raises ``BadInput`` with the row of a cell that names no frame, or one that another row has; and where a frame has
    no row. No name of a file is shown.
    """
    files: Sequence[str] | None = getattr(source, "files", None)
    names = range(source.size or 0) if files is None else files
    places = {str(name): place for place, name in enumerate(names)}
    found = np.empty(len(cells), np.int64)
    rows: dict[int, int] = {}
    for row, cell in enumerate(cells):
        place = places.get(cell)
        if place is None:
            wanted = f"a number from 0 to {len(places) - 1}" if files is None else "the name of a file in the folder"
            raise BadInput(f'Column "{column}", row {row + 1}: expected {wanted}. Correct the cell, or drop the row.')
        if place in rows:
            raise BadInput(
                f'Column "{column}", row {row + 1}: it has the frame of row {rows[place] + 1}. A frame is one row\'s.'
            )
        found[row], rows[place] = place, row
    if missing := len(places) - len(rows):
        first = next(place for place in range(len(places)) if place not in rows)
        raise BadInput(
            f"{missing} frames have no row in the table, the first of them number {first}. Add their rows, or take the "
            "frames away."
        )
    return found


def fingerprint(uri: str, derive: Callable[[str], bytes]) -> str:
    """HMAC-SHA256 of all recordings, by names and bytes: nobody without the key can try whether it is of some."""
    digest = hmac.new(derive("recordings"), digestmod="sha256")
    kind, _, where = uri.partition(":")
    paths = sorted(Path(where).iterdir()) if kind == "images" else [Path(where)]
    for path in paths:
        if path.is_file():
            digest.update(f"{path.name if kind == 'images' else ''}\0{path.stat().st_size}\0".encode())
            for piece in _pieces(path):
                digest.update(piece)
    return digest.hexdigest()


def fingerprint_of_file(path: Path, derive: Callable[[str], bytes]) -> str:
    """The same of one file beside them."""
    digest = hmac.new(derive("table"), digestmod="sha256")
    for piece in _pieces(path):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while piece := file.read(_READ):
                yield piece
    except OSError as error:
        raise BadInput(f"The recordings or their table cannot be read: {error.strerror}. Make them readable.") from None
