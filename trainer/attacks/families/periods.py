"""An attack on sums of two values of which the remainder carries z, by any divisor and with any weights.

A parity of two low bits is the remainder by 2 of the sum of two values; a network that learned to hide z used longer
periods (docs/results/power.md). Neither value alone depends on z then, and over many periods no smooth model follows
the sum. A Fourier transform of the rows' counts over both values, weighted by z, holds all periods and weights at once.
Of more pairs than ``SHARE`` of the budget pays for (about 5,000 in the quick audit, two values of z and of y) a random
part is searched: all of 100 values. A sum of three values or more is out of its reach.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import fft, stats

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.estimator import trees
from edgeveil.trainer.attacks.families.networks import Learner
from edgeveil.trainer.attacks.families.parities import contrasts_of, weights
from edgeveil.trainer.attacks.features import Levels
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Learned

GRID = 256  # levels of a value, of more the lowest eight bits; and frequencies of each value
SHARE, MACS = 0.05, 16 * GRID**2  # of the budget's multiply-adds for one network; of one transform
KEPT, CONFIRMED = 16, 0.05
FINER = np.linspace(-0.5, 0.5, 9)  # of a frequency: a period need not be a part of the grid


class Waves(NamedTuple):
    """Places (k, 2) of two values each, and how often each of them turns a wave in ``GRID`` levels, (k, 2)."""

    places: np.ndarray
    turns: np.ndarray

    def take(self, some: np.ndarray) -> Waves:
        """Some of them."""
        return Waves(self.places[some], self.turns[some])

    def of_rows(self, part: Released, levels: Levels) -> np.ndarray:
        """Where each wave is in each row, complex (n, k) on the unit circle."""
        return np.exp(2j * np.pi / GRID * (numbers(part, levels, self.places) * self.turns).sum(axis=2))


class PeriodsOfSums(Learner):
    """Trees on waves of a weighted sum of two values, of any period."""

    name = "periods of sums"
    order = 25

    def fit(self, problem: Problem, seed: int) -> Learned:
        """Search waves on ``fit``, confirm them on ``stop``, then train trees on them."""
        problem = problem.capped(problem.budget.rows)
        x, rng = problem.fit.x, np.random.default_rng([seed, 19])
        low, high = float(x.min()), float(x.max())
        levels = Levels.from_samples(x) or Levels(low, max(high - low, 1e-12) / (GRID - 1))
        contrasts = contrasts_of(problem.z_classes, rng)
        found = search(problem, levels, contrasts, rng)
        scores, spectra = dependence(found.of_rows(problem.stop, levels), problem.stop, contrasts)
        found = found.take(np.flatnonzero(stats.chi2.sf(2 * scores, max(1, 2 * spectra)) < CONFIRMED))

        def view(part: Released) -> np.ndarray:
            waves = found.of_rows(part, levels)
            return np.concatenate([waves.real, waves.imag, features.side(problem, part)], axis=1).astype(np.float32)

        return trees(problem, view, seed)


def numbers(part: Released, levels: Levels, places: np.ndarray) -> np.ndarray:
    """The levels at these places (k, ...) of each row, modulo ``GRID``: int64 (n, k, ...)."""
    return levels.number(part.x.reshape(len(part), -1)[:, places]).astype(np.int64) % GRID


def search(problem: Problem, levels: Levels, contrasts: np.ndarray, rng: np.random.Generator) -> Waves:
    """The waves that depend most on z given y in the rows of ``fit``, one of each pair of values, best first."""
    fit = problem.fit
    groups = [(rows, one) for rows, of_y in weights(fit.y, fit.z, contrasts) for one in of_y.T if one.any()]
    x = fit.x.reshape(len(fit), -1)
    varied = rng.permutation(np.flatnonzero(x.min(axis=0) != x.max(axis=0)))
    most = int(problem.budget.macs * SHARE / (MACS * max(1, len(groups))))
    varied = varied[: 1 + int(np.sqrt(2 * most))]
    x = numbers(fit, levels, varied)
    pairs = np.stack(np.triu_indices(len(varied), 1), axis=1)
    scores, turns = np.zeros(len(pairs)), np.zeros((len(pairs), 2))
    for number, (first, second) in enumerate(pairs):
        cell = x[:, first] * GRID + x[:, second]
        cells = [np.bincount(cell[rows], one, GRID**2) for rows, one in groups]
        spectrum = fft.rfft2(np.asarray(cells, np.float32).reshape(-1, GRID, GRID))
        power = (spectrum.real**2 + spectrum.imag**2).sum(axis=0)
        power[0], power[:, 0] = 0.0, 0.0  # one value alone
        turns[number] = np.unravel_index(power.argmax(), power.shape)
        scores[number] = power.max()
    best = np.argsort(-scores, kind="stable")[:KEPT]
    return finer(Waves(varied[pairs[best]], turns[best]), fit, levels, contrasts)


def finer(waves: Waves, part: Released, levels: Levels, contrasts: np.ndarray) -> Waves:
    """The same with the turns between those of the grid that depend most on z given y in the rows of ``part``."""
    for axis in (0, 1, 0):
        tried = [waves._replace(turns=waves.turns + step * np.eye(2)[axis]) for step in FINER]
        scores = [dependence(one.of_rows(part, levels), part, contrasts)[0] for one in tried]
        waves = waves._replace(
            turns=np.stack([one.turns for one in tried])[np.argmax(scores, axis=0), np.arange(len(waves.turns))]
        )
    return waves


def dependence(waves: np.ndarray, part: Released, contrasts: np.ndarray) -> tuple[np.ndarray, int]:
    """How much each of ``waves`` (n, k) depends on the contrasts of z given y, and how many of these were summed."""
    score, count = np.zeros(waves.shape[1]), 0
    for rows, weight in weights(part.y, part.z, contrasts):
        score += (np.abs(weight.T @ waves[rows]) ** 2).sum(axis=0)
        count += int((weight != 0).any(axis=0).sum())
    return score, count
