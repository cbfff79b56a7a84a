"""Boosted trees on statistical and spectral features of a signal, which trees on its single samples do not find."""

from __future__ import annotations

import numpy as np

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.boosting import GradientBoosting
from edgeveil.trainer.attacks.families.estimator import View
from edgeveil.trainer.attacks.families.networks import counting_stands_in
from edgeveil.trainer.attacks.problem import Problem, Released

# What describes a signal: statistics of each channel, its spectrum, and how channels go together.

BANDS = 8  # parts of the spectrum, each twice as wide as the last


def signal_features(x: np.ndarray) -> np.ndarray:
    """Windows (n, steps, channels) to features (n, d) float32.

    Of each channel: mean, deviation, extremes, quartiles, mean step, crossings of its mean, power in ``BANDS`` bands
    and where its spectrum lies; of each two: their correlation.
    """
    centred = x - x.mean(axis=1, keepdims=True)
    spread = centred.std(axis=1)
    quartiles = np.percentile(x, [25, 50, 75], axis=1)
    crossings = (np.diff(np.signbit(centred), axis=1) != 0).mean(axis=1)
    parts = [x.mean(axis=1), spread, x.min(axis=1), x.max(axis=1), *quartiles]
    parts += [np.abs(np.diff(x, axis=1)).mean(axis=1), crossings, *_spectral(centred), _correlations(centred, spread)]
    return np.concatenate(parts, axis=1).astype(np.float32)


def _spectral(centred: np.ndarray) -> list[np.ndarray]:
    """Log power (n, channels) in each band, and the mean line of the spectrum."""
    steps = centred.shape[1]
    power = np.abs(np.fft.rfft(centred * np.hanning(steps)[None, :, None], axis=1)[:, 1:]) ** 2
    lines = power.shape[1]
    ends = np.unique(np.round(np.geomspace(1, lines + 1, BANDS + 1)).astype(int)) - 1
    bands = [np.log(power[:, first:last].sum(axis=1) + 1e-9) for first, last in zip(ends[:-1], ends[1:], strict=True)]
    middle = (power * np.arange(1, lines + 1)[None, :, None]).sum(axis=1) / np.maximum(power.sum(axis=1), 1e-9)
    return [*bands, middle]


def _correlations(centred: np.ndarray, spread: np.ndarray) -> np.ndarray:
    products = np.einsum("ntc,ntd->ncd", centred, centred) / centred.shape[1]
    scale = np.maximum(spread[:, :, None] * spread[:, None, :], 1e-9)
    first, second = np.triu_indices(centred.shape[2], 1)
    return (products / scale)[:, first, second]


class SignalBoosting(GradientBoosting):
    """Gradient boosting on statistics and spectra of a signal, y and every further output."""

    name = "boosted signal features"
    order = 17
    of = "series"
    stands_in = "the network over time"

    def why_not(self, problem: Problem) -> str | None:
        """With many values of z it is too slow, and with few of x' counting is exact."""
        return super().why_not(problem) or counting_stands_in(problem)

    def view(self, problem: Problem) -> View:
        """Features of the signal, y and every further output."""

        def seen(part: Released) -> np.ndarray:
            return np.concatenate([signal_features(features.unit(problem, part)), features.side(problem, part)], axis=1)

        return seen
