"""What one can know of a window of motion beyond its class: how strong and how fast it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Sampling
from edgeveil.trainer.datasets.columns import Recorded
from edgeveil.trainer.datasets.readings import Readings, labelled_windows, still_windows
from edgeveil.trainer.recipe.data_section import Series


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


# Recordings cut into windows: each a session, so that the windows of one are never in two slices.


@dataclass(frozen=True)
class Windowed:
    """Windows x (n, length, channels) float32, and the number (n,) of the recording that each is from."""

    x: np.ndarray
    recording: np.ndarray


def cut_windows(recordings: Sequence[np.ndarray], series: Series) -> Windowed:
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
    windows, numbers = [], []
    for number, steps in enumerate(recordings):
        views = np.lib.stride_tricks.sliding_window_view(steps, length, axis=0)[::hop]
        windows.append(np.moveaxis(views, 2, 1))
        numbers.append(np.full(len(views), number))
    return Windowed(np.concatenate(windows).astype(np.float32), np.concatenate(numbers))


def resampled(time_s: np.ndarray, values: np.ndarray, rate_hz: float) -> np.ndarray:
    """Samples (n, channels) taken at rising times (n,) as steps of ``rate_hz``, by linear interpolation."""
    steps = int(np.floor((time_s[-1] - time_s[0]) * rate_hz + 1e-6)) + 1
    grid = time_s[0] + np.arange(steps) / rate_hz
    return np.stack([np.interp(grid, time_s, channel) for channel in values.T], axis=1)


# A user's own recordings: ``csv:FOLDER``, one file a recording, with a time column and one for each channel.
#
# y and z are columns of every file, the same in all its rows, or those of a table next to it (``data.labels``), with a
# column ``file``. A recording is a session; its samples are resampled to the recipe's rate.


MOST_STEPS = 3  # made of one sample


def windows_of(
    recorded: Sequence[Recorded],
    of_roles: Mapping[str, Sequence[str]],
    sampling: Sampling,
    series: Series,
    folder: Path,
) -> Readings:
    """Windows of all recordings of a folder, with the label of each recording by its role.

    The attributes are ``energy`` and ``tempo`` of all channels. Raises ``BadInput``.
    """
    windows = cut_windows([_steps(one, sampling, series.longest_gap_s) for one in recorded], series)
    _check_moves(recorded, windows, series, sampling.rate_hz)
    attributes = {"energy": energy(windows.x), "tempo": tempo(windows.x, sampling.rate_hz)}
    each = {role: (role, np.array(values)[windows.recording]) for role, values in of_roles.items()}
    return labelled_windows(windows.x, sampling, each, folder, session=windows.recording, attributes=attributes)


def _steps(recorded: Recorded, sampling: Sampling, longest_gap_s: float) -> np.ndarray:
    """The steps (n, channels) of one recording at the recipe's rate."""
    path, time, values = recorded.path, recorded.time, recorded.values
    passed = np.diff(time)
    if (passed <= 0).any():
        row = int(np.argmax(passed <= 0)) + 2
        raise BadInput(f"{path}: the time in row {row} is not after that in the row before. Sort or drop rows.")
    if len(passed) and passed.min() > longest_gap_s:
        raise BadInput(
            f"{path}: its samples are {np.median(passed):g} s apart, and `data.series.longest_gap_s` is "
            f'{longest_gap_s:g}. If "{recorded.clock}" is not in seconds, convert it; else allow longer gaps.'
        )
    if len(passed) and passed.max() > longest_gap_s:
        row = int(passed.argmax()) + 1
        raise BadInput(
            f"{path}: {passed.max():g} s without a sample after row {row}, and `data.series.longest_gap_s` is "
            f"{longest_gap_s:g}. Cut the recording there, in two files, or allow longer gaps."
        )
    if len(passed) and len(passed) * MOST_STEPS < (time[-1] - time[0]) * sampling.rate_hz:
        raise BadInput(
            f"{path}: it has {1 / passed.mean():.3g} samples a second, and `data.series.rate_hz` is "
            f"{sampling.rate_hz:g}: most steps would be made up. Lower the rate, or leave the recording out."
        )
    return resampled(time, values, sampling.rate_hz)


def _check_moves(recorded: Sequence[Recorded], found: Windowed, series: Series, rate_hz: float) -> None:
    """Raise ``BadInput`` for a recording whose sensor is stuck for a window."""
    still = still_windows(found.x)
    if not still.any():
        return
    of = found.recording[still.argmax()]
    here = still[found.recording == of]
    after_s = here.argmax() * (series.hop or 1) / rate_hz
    raise BadInput(
        f"{recorded[of].path}: {here.sum()} of its {len(here)} windows do not move, as where the sensor is stuck, and "
        f"a device drops such windows; the first begins after {after_s:g} s. Cut the recording there, or leave it out."
    )
