"""The nearest in shape: dynamic time warping to some training windows, where a person is one habit of moving.

H. Sakoe and S. Chiba, "Dynamic Programming Algorithm Optimization for Spoken Word Recognition", IEEE Transactions on
Acoustics, Speech, and Signal Processing, 1978: steps may be matched up to a band away.
"""

from __future__ import annotations

import numpy as np

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.networks import Learner
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Learned

REFERENCES = 400  # training windows that are compared with
STEPS = 32  # at most: longer windows are thinned to means
BAND = 0.15  # of a window: how far matched steps may be apart
NEIGHBOURS = 5


class NearestInShape(Learner):
    """The nearest of 400 windows of its y, where time may be stretched by some steps."""

    name = "nearest by DTW"
    order = 18
    of = "series"

    def fit(self, problem: Problem, seed: int) -> Learned:
        """Keep a random subset of the training rows.

        The z of the nearest of them of the same y, nearer ones counting more, are joined with P(z | y).
        """
        training = problem.training()
        some = training.take(np.random.default_rng([seed, 17]).permutation(len(training))[:REFERENCES])
        standard = features.Standard.fit(features.unit(problem, some))
        windows = _thin(standard.apply(features.unit(problem, some)))

        def probabilities(part: Released) -> np.ndarray:
            votes = problem.base(part).copy()
            for row, window in enumerate(_thin(standard.apply(features.unit(problem, part)))):
                same = np.flatnonzero(some.y == part.y[row])
                if len(same):
                    far = dtw(window, windows[same])
                    near = np.argsort(far, kind="stable")[:NEIGHBOURS]
                    weight = 1 / (far[near] + 1e-6)
                    np.add.at(votes[row], some.z[same[near]], weight / weight.sum())
            return votes / votes.sum(axis=1, keepdims=True)

        return Learned(probabilities, len(some))


def dtw(window: np.ndarray, references: np.ndarray) -> np.ndarray:
    """Distances (m,) of one window (steps, channels) to references (m, steps, channels) of its length."""
    steps = len(window)
    band = max(1, round(BAND * steps))
    cost = ((window[None, :, None] - references[:, None]) ** 2).sum(axis=3)  # (m, steps of it, steps of theirs)
    reached = np.full((len(references), steps + 1, steps + 1), np.inf)
    reached[:, 0, 0] = 0.0
    for i in range(1, steps + 1):
        for j in range(max(1, i - band), min(steps, i + band) + 1):
            best = np.minimum(np.minimum(reached[:, i - 1, j], reached[:, i, j - 1]), reached[:, i - 1, j - 1])
            reached[:, i, j] = cost[:, i - 1, j - 1] + best
    return np.sqrt(reached[:, steps, steps])


def _thin(x: np.ndarray) -> np.ndarray:
    """Windows (n, steps, channels) with at most ``STEPS`` steps, each the mean of those that it stands for."""
    if x.shape[1] <= STEPS:
        return x
    ends = np.linspace(0, x.shape[1], STEPS + 1).round().astype(int)
    return np.stack([x[:, first:last].mean(axis=1) for first, last in zip(ends[:-1], ends[1:], strict=True)], axis=1)
