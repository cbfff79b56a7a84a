"""Recordings cut into windows: each a session, so that the windows of one are never in two slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.recipe.series import Series


@dataclass(frozen=True)
class Windowed:
    """Windows x (n, length, channels) float32, and the number (n,) of the recording that each is from."""

    x: np.ndarray
    recording: np.ndarray


def cut(recordings: Sequence[np.ndarray], series: Series) -> Windowed:
    """Windows of recordings (steps, channels), all of one rate; what is left over at a recording's end is not used.

    Raises ``BadInput`` where the recipe names no window, or a recording is shorter than one.
    """
    length, hop = series.length, series.hop
    if length is None or hop is None:
        raise BadInput(
            "`data.series.length` and `data.series.hop` are missing: recordings are cut into windows by them."
        )
    short = [number for number, one in enumerate(recordings) if len(one) < length]
    if short:
        raise BadInput(
            f"{len(short)} of {len(recordings)} recordings are shorter than a window of {length} steps, one of them "
            f"{len(recordings[short[0]])}: make `data.series.length` smaller, or leave them out."
        )
    found, numbers = [], []
    for number, steps in enumerate(recordings):
        views = np.lib.stride_tricks.sliding_window_view(steps, length, axis=0)[::hop]
        found.append(np.moveaxis(views, 2, 1))
        numbers.append(np.full(len(views), number))
    return Windowed(np.concatenate(found).astype(np.float32), np.concatenate(numbers))


def still(x: np.ndarray) -> np.ndarray:
    """Which windows (n,) of x (n, steps, channels) do not move at all, and are dropped on a device."""
    return np.asarray((x == x[:, :1]).all(axis=(1, 2)))


def resampled(time_s: np.ndarray, values: np.ndarray, rate_hz: float) -> np.ndarray:
    """Samples (n, channels) taken at rising times (n,) as steps of ``rate_hz``, by linear interpolation."""
    steps = int(np.floor((time_s[-1] - time_s[0]) * rate_hz + 1e-6)) + 1
    grid = time_s[0] + np.arange(steps) / rate_hz
    return np.stack([np.interp(grid, time_s, channel) for channel in values.T], axis=1)
