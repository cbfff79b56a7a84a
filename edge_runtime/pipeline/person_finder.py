"""Finds people under an overhead depth camera: the floor is the farthest depth seen, and people rise above it.

Section 6.1 of paper 001 takes a patch around each person; this finds the place. Only numpy: about a tenth of a
millisecond for 424 x 512 on a workstation.
"""

from typing import List, NamedTuple, Sequence, Tuple

import numpy as np

GRID = 4  # only every fourth row and column is used; a head is about 40 pixels wide
Slices = Tuple[slice, ...]
HEAD_MM = 350.0  # head and shoulders: at most this far below the highest point; their middle is the person's


class Person(NamedTuple):
    """Row and column of one person. ``centre``: the middle of head and shoulders in the picture, where they are cut
    out. ``place``: the middle in space, as the camera sees it at the height of the head; shoulders, which are farther
    away, pull a centre towards the picture's middle."""

    centre: Tuple[float, float]
    place: Tuple[float, float]


class Floor(object):
    """The temporal maximum: for each pixel the largest depth of the last ``frames`` to twice ``frames`` pictures.

    A person who stood still all that time becomes floor. ``depth`` is uint16 (height, width), 0 before any measurement.
    """

    def __init__(self, shape: Tuple[int, ...], frames: int) -> None:
        self.depth = np.zeros(shape, np.uint16)
        self._recent = np.zeros(shape, np.uint16)
        self._frames, self._seen = frames, 0

    def update(self, depth: np.ndarray) -> None:
        """Add one picture."""
        if self._seen == self._frames:
            # Two blocks of time: the older one is forgotten, so that a new chair becomes floor.
            self.depth[...] = self._recent
            self._recent[...] = 0
            self._seen = 0
        np.maximum(self._recent, depth, out=self._recent)
        np.maximum(self.depth, depth, out=self.depth)
        self._seen += 1

    def height(self, depth: np.ndarray, window: Slices = (slice(None), slice(None))) -> np.ndarray:
        """The height of depths (of this part of the picture) above the floor, uint16; 0 without a measurement."""
        above = self.depth[window] - depth
        above[depth == 0] = 0
        return above


class Finder(object):
    """Finds people on every ``GRID``-th row and column of pictures of ``shape``.

    The camera looks straight down: ``focal_px`` is its focal length, its axis the picture's middle. Points at least
    ``least_height`` above the floor are projected onto the floor: all within ``apart`` of a highest point are one
    person, if they cover ``least_pixels`` of the picture. Depths and heights are in units of the sensor.
    """

    def __init__(
        self, shape: Sequence[int], *, focal_px: float, apart: float, least_height: float, least_pixels: int
    ) -> None:
        self._rows, self._columns = ((np.arange(n // GRID, dtype=np.float32) + 0.5) * GRID for n in shape)
        self._down, self._across = (self._rows - shape[0] / 2) / focal_px, (self._columns - shape[1] / 2) / focal_px
        self._focal, self._middle = focal_px, (shape[0] / 2, shape[1] / 2)
        self._apart, self._least_height, self._least = apart, least_height, least_pixels

    def __call__(self, depth: np.ndarray, above: np.ndarray, head: float, most: int) -> List[Person]:
        """The people in the picture, the tallest first, at most ``most``.

        ``depth`` and ``above`` are uint16 on the grid. Points within ``head`` of the highest one are head and
        shoulders, whose middle is the person's.
        """
        tall = above >= self._least_height
        row, column = np.nonzero(tall)
        if not len(row):
            return []
        depth, height = depth[row, column], above[row, column].astype(np.float32)
        smooth = _mean3(np.where(tall, above, 0).astype(np.float32))[row, column]
        down, across = self._down[row] * depth, self._across[column] * depth
        people: List[Person] = []
        # Objects too small for a person cost a turn too; the number of turns is bounded.
        for _ in range(2 * most + 4):
            peak = int(smooth.argmax())
            top = smooth[peak]
            if top <= 0 or len(people) == most:
                break
            near = (down - down[peak]) ** 2 + (across - across[peak]) ** 2 <= self._apart**2
            near &= smooth >= 0
            smooth[near] = -1  # taken
            if int(near.sum()) * GRID * GRID < self._least:
                continue
            upper = near & (height > top - head)
            to_picture = self._focal / float(depth[peak])
            people.append(
                Person(
                    (float(self._rows[row[upper]].mean()), float(self._columns[column[upper]].mean())),
                    (
                        self._middle[0] + float(down[upper].mean()) * to_picture,
                        self._middle[1] + float(across[upper].mean()) * to_picture,
                    ),
                )
            )
        return people


def _mean3(x: np.ndarray) -> np.ndarray:
    """Means of 3 by 3, 0 at the border: a single wrong sample is no head."""
    across = x[:, :-2] + x[:, 1:-1] + x[:, 2:]
    mean = np.zeros_like(x)
    mean[1:-1, 1:-1] = (across[:-2] + across[1:-1] + across[2:]) / 9
    return mean


def window(centre: Sequence[float], size: Sequence[int], shape: Sequence[int]) -> Tuple[Slices, Slices]:
    """The part of a picture of ``shape`` in a crop of ``size`` around ``centre``, and its place in the crop.

    Two pairs of slices; the crop's middle is the centre's pixel, and the slices omit what is outside the picture.
    """
    inside, place = [], []
    for middle, length, end in zip(centre, size, shape):
        start = round(middle) - length // 2
        low, high = max(start, 0), min(start + length, end)
        inside.append(slice(low, high))
        place.append(slice(low - start, high - start))
    return tuple(inside), tuple(place)
