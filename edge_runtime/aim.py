"""What a person needs to aim a camera without seeing its picture: a few levels from 0 to 15, four bits each.

They are computed from the raw reading and tell something about it. So they leave the inside only while aiming was
switched on, go to the preview page of this device alone, and are as coarse as is of any use.
"""

import math
from typing import Any, Dict

import numpy as np

from edge_runtime.frames import RawFrame

LEVELS = 16
NAMES = ("exposure", "dark", "bright", "near", "far", "blob", "cut", "focus")
TOP, RIGHT, BOTTOM, LEFT = 1, 2, 4, 8
_MOST = 120  # rows and columns that are looked at, focus aside


def aim(raw: np.ndarray, *, low: float, high: float) -> Dict[str, int]:
    """The levels of one reading (height, width) or (height, width, channels) whose range is ``low`` to ``high``.

    ``exposure`` is its middle value, ``dark`` and ``bright`` how much of it is at either end of the range (a depth of 0
    is no reading), ``near`` and ``far`` where 5 and 95 % of the others lie. ``blob`` is how much stands out from the
    background, ``cut`` at which edges it is cut off (1 top, 2 right, 4 bottom, 8 left, their sum), ``focus`` how sharp
    it is, on a scale of its own: turn the lens until it is largest. A vector has all of them 0.
    """
    if raw.ndim == 3:
        raw = raw.mean(axis=2) if raw.shape[2] > 1 else raw[:, :, 0]
    if raw.ndim != 2 or min(raw.shape) < 8:
        return dict.fromkeys(NAMES, 0)
    step = [-(-size // _MOST) for size in raw.shape]
    unit = np.clip((raw[:: step[0], :: step[1]].astype(np.float32) - low) / (high - low), 0.0, 1.0)
    unit = np.where(np.isfinite(unit), unit, 0.0)
    dark, bright = unit <= 0.004, unit >= 0.996
    seen = unit[~(dark | bright)]
    if not seen.size:
        seen = unit
    near, middle, far = np.percentile(seen, (5, 50, 95))
    # The background is what most of the frame shows; a blob is what differs from it by an eighth of the range.
    blob = np.abs(unit - middle) > 0.125
    blob &= ~dark
    edges = (blob[0], blob[:, -1], blob[-1], blob[:, 0])
    cut = sum(bit for bit, edge in zip((TOP, RIGHT, BOTTOM, LEFT), edges) if edge.mean() > 0.05)
    shares = [_level(share.mean() + 0.99 / LEVELS) if share.mean() > 0.005 else 0 for share in (dark, bright, blob)]
    levels = [_level(value) for value in (middle, near, far, _sharpness(raw, low, high))]
    found = (levels[0], shares[0], shares[1], levels[1], levels[2], shares[2], cut, levels[3])
    return dict(zip(NAMES, found))


def of_frame(frame: RawFrame, *, low: Any, high: Any) -> Dict[str, int]:
    """``aim`` of a frame as a source gives it; all 0 where it has no range of two numbers."""
    if np.ndim(low) or np.ndim(high) or low is None:
        return dict.fromkeys(NAMES, 0)
    return aim(frame._data, low=low, high=high)


def only_levels(numbers: Dict[str, int]) -> Dict[str, int]:
    """Of any numbers by name, those with a name from here, each brought into 0 to 15: nothing else can pass."""
    return {name: min(max(int(numbers[name]), 0), LEVELS - 1) for name in NAMES if name in numbers}


def _level(value: float) -> int:
    return int(min(max(float(value), 0.0) * LEVELS, LEVELS - 1))


def _sharpness(raw: np.ndarray, low: float, high: float) -> float:
    """Energy of the slopes against the variance in the middle of the frame, in octaves, 0 to 1.

    An edge that is blurred over w pixels has 1/w of the energy of a sharp one, and the same variance.
    """
    rows, columns = raw.shape
    tall, wide = min(rows, 2 * _MOST), min(columns, 2 * _MOST)
    top, left = (rows - tall) // 2, (columns - wide) // 2
    part = np.nan_to_num((raw[top : top + tall, left : left + wide].astype(np.float32) - low) / (high - low))
    variance = float(part.var())
    if variance < 1e-6:
        return 0.0
    energy = float(np.square(np.diff(part, axis=1)).mean() + np.square(np.diff(part, axis=0)).mean())
    return (math.log(max(energy / variance, 2.0**-12), 2) + 11.0) / 12.0
