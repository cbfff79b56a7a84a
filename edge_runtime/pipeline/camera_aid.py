"""Levels that help to aim a camera without its picture: eight numbers from 0 to 15, four bits each.

They are computed from the raw sample and reveal something about it. So they leave the inside only while the camera aid
is on, go only to the preview page of this device, and are as coarse as is useful.
"""

import math
import time
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import numpy as np

from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.errors import DeviceFailed, FrameDropped
from edgeveil.edge_runtime.ipc.counters import LEVEL
from edgeveil.edge_runtime.ipc.notes import EDGE_COLUMNS, EDGE_ROWS, LEVELS, NAMES
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.pipeline.pipeline import numbers_in

TOP, RIGHT, BOTTOM, LEFT = 1, 2, 4, 8
AID_S = 900.0  # it ends by itself: a forgotten flag must not reveal x for years
_EVERY_S = 0.25
_DEPTH_MM = 8000.0  # the range of depth cameras
_MOST = 120  # rows and columns that are used, except for focus


def focus_levels(raw: np.ndarray, *, low: float, high: float) -> Dict[str, int]:
    """The levels of one sample (height, width) or (height, width, channels) whose range is ``low`` to ``high``.

    ``exposure`` is the median, ``dark`` and ``bright`` the shares at either end of the range (a depth of 0 means no
    measurement), ``near`` and ``far`` the 5 and 95 % quantiles of the others. ``blob`` is the share that differs from
    the background, ``cut`` the edges that it touches (1 top, 2 right, 4 bottom, 8 left, their sum), ``focus`` the
    sharpness, on a scale of its own: turn the lens until it is largest. For a vector all of them are 0.
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
    # Most of the frame is background; a blob differs from it by an eighth of the range.
    blob = np.abs(unit - middle) > 0.125
    blob &= ~dark
    edges = (blob[0], blob[:, -1], blob[-1], blob[:, 0])
    cut = sum(bit for bit, edge in zip((TOP, RIGHT, BOTTOM, LEFT), edges) if edge.mean() > 0.05)
    levels: Dict[str, float] = {"exposure": middle, "near": near, "far": far, "focus": _sharpness(raw, low, high)}
    for name, mask in (("dark", dark), ("bright", bright), ("blob", blob)):
        share = mask.mean()
        levels[name] = share + 0.99 / LEVELS if share > 0.005 else 0.0
    return dict({name: _level(value) for name, value in levels.items()}, cut=cut)


_EDGE = 0.08  # of the range, between two neighbours of the small picture


def edges(raw: np.ndarray, *, low: float, high: float) -> bytes:
    """Where the raw picture has edges, one bit each for 72 rows of 96: what ``edgeveil-edge aim`` shows, and no more.

    ``raw`` is (height, width) or (height, width, channels) with values from ``low`` to ``high``. A smaller picture
    fills a part; of a vector there are none.
    """
    bits = np.zeros((EDGE_ROWS, EDGE_COLUMNS), bool)
    if raw.ndim == 3:
        raw = raw.mean(axis=2)
    if raw.ndim == 2 and min(raw.shape) >= 2:
        step = max(-(-raw.shape[0] // EDGE_ROWS), -(-raw.shape[1] // EDGE_COLUMNS))
        rows, columns = (size // step for size in raw.shape)
        unit = np.nan_to_num((raw[: rows * step, : columns * step].astype(np.float32) - low) / (high - low))
        small = np.clip(unit, 0.0, 1.0).reshape(rows, step, columns, step).mean(axis=(1, 3))
        across, down = np.abs(np.diff(small, axis=1)) > _EDGE, np.abs(np.diff(small, axis=0)) > _EDGE
        bits[:rows, 1:columns] |= across
        bits[1:rows, :columns] |= down
    return np.packbits(bits).tobytes()


class CameraAid(object):
    """Writes levels to ``counters`` as ``level:NAME`` every quarter of a second; -1 means none."""

    def __init__(self, manifest: Manifest, counters: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._low, self._high = value_range(manifest)
        self._counters, self._clock = counters, clock
        self._end_s = clock() + AID_S
        self._next_s = 0.0

    def observe(self, raw: np.ndarray) -> None:
        """Update the levels from this sample if that is due; after ``AID_S`` there are none."""
        now = self._clock()
        if now < self._next_s:
            return
        if now >= self._end_s:
            self._next_s = float("inf")
            levels = dict.fromkeys(NAMES, -1)
        else:
            self._next_s = now + _EVERY_S
            try:
                levels = focus_levels(raw, low=self._low, high=self._high)
            except Exception:
                # A bad sample has no levels; the error's text may hold a part of it.
                self._counters.add("fault:camera-aid")
                return
        for name, level in levels.items():
            self._counters.set(LEVEL + name, level)


def value_range(manifest: Manifest) -> Tuple[float, float]:
    """The range of the sensor's samples if ``capture`` has one, else of the input."""
    capture, low, high = manifest.capture, manifest.input.low, manifest.input.high
    if capture is not None:
        if capture.frame.unit_mm is not None:
            return 0.0, _DEPTH_MM / capture.frame.unit_mm
        if capture.low is not None:
            low, high = capture.low, capture.high
    if not isinstance(low, (int, float)):
        # Each feature has its own range, or none: such a vector has no camera aid.
        return 0.0, 1.0
    return float(low), float(high)


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
    # The edge of a hole without measurements is always sharp, whatever the lens does.
    seen = (part > 0.004) & (part < 0.996)
    if seen.sum() < 64:
        return 0.0
    variance = float(part[seen].var())
    if variance < 1e-6:
        return 0.0
    across = np.square(np.diff(part, axis=1))[seen[:, 1:] & seen[:, :-1]]
    down = np.square(np.diff(part, axis=0))[seen[1:] & seen[:-1]]
    energy = float(across.sum() + down.sum()) / max(len(across), len(down), 1)
    return (math.log(max(energy / variance, 2.0**-12), 2) + 11.0) / 12.0


# The network that finds people, opened and tested on this machine.


def open_detector(manifest: Manifest, members: Mapping[str, bytes], threads: int = 1) -> Optional[Any]:
    """The detector of a verified bundle on a processor; None where it has none.

    Raises ``DeviceFailed`` where nothing here runs it, or where its scores for the golden pictures are not those that
    were recorded.
    """
    rules = manifest.detector
    if rules is None:
        return None
    runner = open_backend(rules.format, members[rules.file], rules.entry, threads=threads)
    pictures, wanted = (numbers_in(members, rules.golden[name]) for name in ("input", "scores"))
    try:
        scores = np.concatenate(
            [np.asarray(runner.run({rules.entry["inputs"][0]["name"]: one[None]})["scores"]) for one in pictures]
        )
    except FrameDropped as drop:
        reason = drop.reason
    else:
        # Which box comes first may depend on the last bit of a score.
        same = scores.size and scores.shape == wanted.shape
        apart = float(np.abs(np.sort(scores, axis=1) - np.sort(wanted, axis=1)).max()) if same else np.inf
        if apart <= rules.entry["tolerance"]["max_abs"]:
            return runner
        reason = "its scores are other than recorded"
    runner.close()
    raise DeviceFailed("the bundle's detector fails its self-test here ({}): nothing is counted".format(reason))
