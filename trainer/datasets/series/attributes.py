"""What one can know of a window of motion beyond its class: how strong and how fast it is."""

from __future__ import annotations

import numpy as np


def energy(x: np.ndarray) -> np.ndarray:
    """Root mean square of the change from each channel's mean, over steps and channels: windows (n, T, C) to (n,).

    In units of x; give channels of one unit.
    """
    centred = x - x.mean(axis=1, keepdims=True)
    return np.sqrt((centred.astype(np.float64) ** 2).mean(axis=(1, 2)))


def tempo(x: np.ndarray, rate_hz: float) -> np.ndarray:
    """The mean frequency in Hz of windows (n, T, C): that of each line of the power spectrum, weighted by its power."""
    centred = (x - x.mean(axis=1, keepdims=True)) * np.hanning(x.shape[1])[None, :, None]
    power = (np.abs(np.fft.rfft(centred, axis=1)) ** 2).sum(axis=2)
    frequency = np.fft.rfftfreq(x.shape[1], 1 / rate_hz)
    return (power * frequency).sum(axis=1) / np.maximum(power.sum(axis=1), 1e-12)
