"""Pictures and films as arrays, made small enough for adversaries to learn from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.opencv import film_name, opencv, read_picture
from edgeveil.trainer.datasets.loaders.npz import SMALLEST_SIDE

SIDE = 64  # pixels of the longer side
MOST_FRAMES = 20_000


def pictures(files: Mapping[str, Path]) -> tuple[np.ndarray, list[str]]:
    """Pictures (n, height, width, channels) of one size, and sentences on changes. Raises ``BadInput``."""
    found = []
    for path in files.values():
        picture = read_picture(path)
        if picture is None:
            raise BadInput(f"{path} cannot be read as a picture. Write it again, or remove it from both folders.")
        found.append(_channels(picture))
    if len({picture.dtype for picture in found}) > 1:
        raise BadInput("Pictures of one depth were expected; got 8 and 16 bits in one folder. Convert them to one.")
    colours = max(picture.shape[2] for picture in found)
    found = [np.repeat(one, colours, axis=2) if one.shape[2] < colours else one for one in found]
    sizes = {picture.shape[:2] for picture in found}
    height, width = next(iter(sizes)) if len(sizes) == 1 else (SIDE, SIDE)
    to = _smaller(height, width)
    notes = [] if sizes == {to} else [_note("Pictures", sizes, to)]
    return np.stack([_resized(one, to) for one in found]), notes


def film(path: Path) -> tuple[np.ndarray, list[str]]:
    """All frames (n, height, width, channels) of a film, uint8. Raises ``BadInput`` where it cannot be read."""
    cv2 = opencv()
    opened = cv2.VideoCapture(film_name(path))
    found: list[np.ndarray] = []
    size = to = (0, 0)
    while opened.isOpened():
        good, picture = opened.read()
        if not good:
            break
        if len(found) == MOST_FRAMES:
            raise BadInput(f"{path} has more than {MOST_FRAMES:,} frames. Cut both films at the same frame.")
        if not found:
            size, to = picture.shape[:2], _smaller(*picture.shape[:2])
        found.append(_resized(_channels(picture), to))
    opened.release()
    if not found:
        raise BadInput(f"A film that OpenCV can read was expected at {path}; it finds no picture in it.")
    return np.stack(found), [] if size == to else [_note("Frames", {size}, to)]


def scaled(x: np.ndarray, side: int) -> np.ndarray:
    """Pictures (n, height, width, channels) as (n, side, side, channels), float32, by area averaging."""
    cv2 = opencv()
    made = [cv2.resize(one.astype(np.float32), (side, side), interpolation=cv2.INTER_AREA) for one in x]
    return np.stack(made).reshape(len(x), side, side, x.shape[-1])


def _channels(picture: np.ndarray) -> np.ndarray:
    """(height, width, channels) in the order red, green, blue, without transparency."""
    if picture.ndim == 2:
        return picture[..., None]
    return picture[..., :3][..., ::-1]


def _smaller(height: int, width: int) -> tuple[int, int]:
    """The size with a longer side of at most ``SIDE``."""
    share = min(1.0, SIDE / max(height, width))
    return max(SMALLEST_SIDE, round(height * share)), max(SMALLEST_SIDE, round(width * share))


def _resized(picture: np.ndarray, to: tuple[int, int]) -> np.ndarray:
    if picture.shape[:2] == to:
        return np.ascontiguousarray(picture)
    cv2 = opencv()
    made = cv2.resize(np.ascontiguousarray(picture), to[::-1], interpolation=cv2.INTER_AREA)
    return made.reshape(*to, picture.shape[2])


def _note(what: str, sizes: set[tuple[int, int]], to: tuple[int, int]) -> str:
    was = f"{max(sizes)[0]} x {max(sizes)[1]} pixels" if len(sizes) == 1 else f"{len(sizes):,} sizes"
    return f"{what} of {was} were made {to[0]} x {to[1]} by area averaging: what finer detail tells was not attacked."
