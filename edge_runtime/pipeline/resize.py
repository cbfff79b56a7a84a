"""Resizes pictures with numpy: the same bytes in training and on every board, at about OpenCV's speed.

``area`` takes means, exactly: sums of whole numbers, divided once. A float sum would depend on the order in which a
BLAS or OpenCV adds.
"""

import sys
from math import gcd
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from edgeveil.edge_runtime.errors import FrameDropped
from edgeveil.edge_runtime.late_imports import MOST_FITTED

Function = Callable[[np.ndarray], np.ndarray]
RED, GREEN, BLUE = 77, 150, 29  # 256 times the weights of BT.601's luma


def nearest(size: Sequence[int], to: Sequence[int]) -> Function:
    """The function from (height, width, ...) of ``size`` to ``to``: the pixel under each new pixel's middle."""
    if tuple(size) == tuple(to):
        return lambda picture: picture
    rows, columns = (((np.arange(b) + 0.5) * a / b).astype(np.intp) for a, b in zip(size, to))

    def run(picture: np.ndarray) -> np.ndarray:
        return picture.take(rows, axis=0).take(columns, axis=1)

    return run


def area(size: Sequence[int], to: Sequence[int], dtype: np.dtype) -> Function:
    """The function from (height, width, channels) of ``size`` and ``dtype`` to float32 of ``to``: means over the area
    of each new pixel, the exact ones of a whole ``dtype`` rounded once to float32."""
    (down, tall), (across, wide) = (_shares(a, b) for a, b in zip(size, to))
    first, second = _sums(down, _wide(dtype, tall)), _sums(across, _wide(dtype, tall * wide))
    # Up to 2**24 the numbers are whole in float32 too, and its division is then rounded as that of float64 is.
    quotient = np.dtype(np.float32 if _most(dtype) * tall * wide <= 2**24 else np.float64)

    def run(picture: np.ndarray) -> np.ndarray:
        channels = picture.shape[2]
        rows = first(picture.reshape(size[0], -1)).reshape(to[0], size[1], channels)
        turned = np.empty((size[1], channels, to[0]), rows.dtype)
        for channel in range(channels):  # all of a pixel at once would be a call for each pixel
            turned[:, channel] = rows[..., channel].T
        columns = second(turned.reshape(size[1], -1))
        total = columns.reshape(to[1], channels, to[0]).transpose(2, 0, 1).astype(quotient)
        return (total / quotient.type(tall * wide)).astype(np.float32, copy=False)

    return run


_Share = Tuple[np.ndarray, np.ndarray]


def _shares(a: int, b: int) -> Tuple[List[_Share], int]:
    """(old rows, their weights), each (b,), whose sum is a new row of ``b`` times the number that is returned too."""
    unit, whole = b // gcd(a, b), a // gcd(a, b)  # lengths of an old row and of a new one
    start = np.arange(b, dtype=np.int64) * whole
    shares = []
    for k in range((whole - 1) // unit + 2):
        old = start // unit + k
        weight = np.minimum((old + 1) * unit, start + whole) - np.maximum(old * unit, start)
        if (weight > 0).any():
            shares.append((np.minimum(old, a - 1), np.maximum(weight, 0)))
    return shares, whole


def _sums(shares: List[_Share], dtype: np.dtype) -> Function:
    """The weighted sums over the first axis: from (a, n) to ``dtype`` (b, n)."""
    weighted = [(rows, None if (weights == 1).all() else weights[:, None].astype(dtype)) for rows, weights in shares]

    def run(values: np.ndarray) -> np.ndarray:
        total: Any = None
        for rows, weights in weighted:
            part = values.take(rows, axis=0).astype(dtype, copy=False)
            if weights is not None:
                part *= weights
            total = part if total is None else np.add(total, part, out=total)
        return np.asarray(total)

    return run


def _most(dtype: np.dtype) -> float:
    """The largest magnitude of a whole type; of the others infinity."""
    return -int(np.iinfo(dtype).min) or int(np.iinfo(dtype).max) if dtype.kind in "iu" else float("inf")


def _wide(dtype: np.dtype, times: int) -> np.dtype:
    """The narrowest type that holds ``times`` any value of ``dtype``: sums in it are exact, and the more bytes of it
    there are, the slower."""
    if dtype.kind not in "iu":
        return np.dtype(np.float64)
    types = (np.dtype("{}{}".format(dtype.kind, size)) for size in (2, 4, 8))
    return next(one for one in types if _most(dtype) * times <= np.iinfo(one).max)


def gray(picture: np.ndarray) -> np.ndarray:
    """The luma of a picture (height, width, 3) of RGB, uint8: weights of BT.601 in 256ths, rounded down."""
    cv2 = sys.modules.get("cv2")  # numpy takes three times as long over channels that are not apart
    apart = np.moveaxis(picture, 2, 0) if cv2 is None else cv2.split(np.ascontiguousarray(picture))
    red, green, blue = (one.astype(np.uint16) for one in apart)
    red *= RED
    green *= GREEN
    blue *= BLUE
    red += green
    red += blue
    red >>= 8
    return red.astype(np.uint8)


class Fit(object):
    """Brings a picture (height, width[, channels]) of any size to (height, width) ``to``, in its own type.

    ``stretch`` fills ``to`` with all of it. ``letterbox`` and ``crop`` keep the ratio of the sides, in the middle: what
    the first leaves over is 0, and the second cuts off what is beyond.
    """

    def __init__(self, way: str, resize: Optional[str], to: Sequence[int]) -> None:
        self._way, self._means, self._to = way, resize == "area", tuple(to)
        self._size: Tuple[int, ...] = ()
        self._type = np.dtype(np.uint8)

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """Raises ``FrameDropped`` for a picture of more than ``MOST_FITTED`` pixels, or of none."""
        size = picture.shape[:2]
        if not 0 < size[0] * size[1] <= MOST_FITTED:
            raise FrameDropped("shape")
        if size == self._to:
            return picture
        if size != self._size or picture.dtype != self._type:
            self._plan(size, picture.dtype)
        planes = picture if picture.ndim == 3 else picture[:, :, None]
        resized = self._run(planes[self._part])
        whole = picture.dtype.kind in "iu" and resized.dtype.kind == "f"
        fitted = np.zeros(self._to + planes.shape[2:], picture.dtype)
        fitted[self._place] = np.rint(resized) if whole else resized
        return fitted if picture.ndim == 3 else fitted[:, :, 0]

    def _plan(self, size: Tuple[int, int], dtype: np.dtype) -> None:
        part = _within(size, self._to) if self._way == "crop" else size
        inner = _within(self._to, size) if self._way == "letterbox" else self._to
        self._run = area(part, inner, dtype) if self._means and part != inner else nearest(part, inner)
        self._part, self._place = _middle(part, size), _middle(inner, self._to)
        self._size, self._type = size, dtype


def _within(whole: Tuple[int, ...], ratio: Tuple[int, ...]) -> Tuple[int, int]:
    """The largest size within ``whole`` whose sides are as those of ``ratio``: whole numbers, rounded half up."""
    (height, width), (rows, columns) = whole, ratio
    if rows * width >= columns * height:
        return height, max(1, (2 * columns * height + rows) // (2 * rows))
    return max(1, (2 * rows * width + columns) // (2 * columns)), width


def _middle(part: Sequence[int], whole: Sequence[int]) -> Tuple[slice, ...]:
    """The place of a ``part`` in the middle of the ``whole``; an odd row or column more is below or right."""
    return tuple(slice((b - a) // 2, (b - a) // 2 + a) for a, b in zip(part, whole))
