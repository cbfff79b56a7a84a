"""Recordings: which frames there are, by what their table calls them, and their keyed fingerprint."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.formats.plurals import counted
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.manifest.sensor import expected
from edgeveil.edge_runtime.sources import open_source
from edgeveil.edge_runtime.sources.base import Source
from edgeveil.edge_runtime.sources.images import list_pictures
from edgeveil.edge_runtime.sources.npz import count_rows
from edgeveil.trainer.publish.work.parquet_frames import ParquetFrames, open_parquet

NPZ, PARQUET = "npz:", "parquet:"
FrameNames = Sequence[str] | range
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
        spec = manifest.input
        sensor = expected(spec, None if spec.kind == "series" else manifest.capture)  # of a series, whole windows
        return ParquetFrames(Path(uri.removeprefix(PARQUET)), sensor)
    return open_source(uri, manifest.input, manifest.capture)


def names_of(uri: str) -> FrameNames:
    """What a table calls the frames, without a bundle: their files in the folder, or numbers. Raises ``BadInput``."""
    kind, _, where = uri.partition(":")
    if kind == "images":
        return list_pictures(where)[1]
    if uri.startswith(PARQUET):
        with open_parquet(Path(where)) as file:
            return range(file.metadata.num_rows)
    return range(count_rows(where))


def names_in(source: Source) -> FrameNames:
    """The same of an opened source."""
    files: Sequence[str] | None = getattr(source, "files", None)
    return range(source.size or 0) if files is None else files


def matched(cells: Sequence[str], names: FrameNames, column: str) -> np.ndarray:
    """The number of each row's frame (rows,), from 0.

    Raises ``BadInput`` with the row of a cell that names no frame, or one that another row has; and where a frame has
    no row. No name of a file is shown.
    """
    places = {str(name): place for place, name in enumerate(names)}
    wanted = f"a number from 0 to {len(places) - 1}" if isinstance(names, range) else "the name of a file in the folder"
    found = np.empty(len(cells), np.int64)
    rows = np.full(len(places), -1)
    for row, cell in enumerate(cells):
        place = places.get(cell)
        if place is None:
            raise BadInput(f'Column "{column}", row {row + 1}: expected {wanted}. Correct the cell, or drop the row.')
        if rows[place] >= 0:
            raise BadInput(
                f'Column "{column}", row {row + 1}: it has the frame of row {rows[place] + 1}. A frame is one row\'s.'
            )
        found[row], rows[place] = place, row
    if len(missing := np.flatnonzero(rows < 0)):
        raise BadInput(
            f"{counted(len(missing), 'frame has', 'frames have')} no row in the table, the first of them number "
            f"{missing[0]}. Add their "
            "rows, or take the frames away."
        )
    return found


def fingerprint(uri: str, derive: Callable[[str], bytes]) -> str:
    """HMAC-SHA256 of all recordings, by names and bytes: nobody without the key can try whether it is of some."""
    digest = hmac.new(derive("recordings"), digestmod="sha256")
    kind, _, where = uri.partition(":")
    names = sorted(list_pictures(where)[1]) if kind == "images" else [""]
    for name in names:
        path = Path(where, name)
        with _reading():
            digest.update(f"{name}\0{path.stat().st_size}\0".encode())
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
    with _reading(), path.open("rb") as file:
        while piece := file.read(_READ):
            yield piece


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(f"The recordings or their table cannot be read: {error.strerror}. Make them readable.") from None
