"""An attack on the lowest bits of x'.

A perturber can hide z in the last bit of one value: the picture does not change, a convolution averages it away, and a
tree over 256 levels needs luck to find it. Or in the sum of all values, which no single one tells. So this attack takes
single bits and remainders of that sum as features: it keeps those that depend most on z given y in the training rows,
and boosted trees combine them.
"""

from __future__ import annotations

import numpy as np

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.estimator import trees
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Adaptive, Learned

KEPT = 48


class LowBits(Adaptive):
    """Trees on those lowest bits of a value or step, and remainders of the sum, that depend most on z."""

    name = "lowest bits"
    order = 5

    def fit(self, problem: Problem, seed: int) -> Learned:
        """Screen the bits on ``fit``, then train trees on those kept, stopped on ``stop``."""
        problem = problem.capped(problem.budget.rows)
        levels = features.Levels.from_samples(problem.fit.x)

        def bits_of(part: Released) -> np.ndarray:
            bits = features.low_bits(part, levels=levels)
            return np.concatenate([bits, features.remainders(part, levels)], axis=1)

        selected_bits = screened(bits_of(problem.fit), problem.fit.y, problem.fit.z)

        def view(part: Released) -> np.ndarray:
            bits = bits_of(part)[:, selected_bits].astype(np.float32)
            return np.concatenate([bits, features.side(problem, part)], axis=1)

        return trees(problem, view, seed)


def screened(bits: np.ndarray, y: np.ndarray, z: np.ndarray, kept: int = KEPT) -> np.ndarray:
    """The columns of ``bits`` (n, d) that depend most on z given y, by the chi-squared statistic summed over y."""
    score = np.zeros(bits.shape[1])
    for value in np.unique(y):
        rows = y == value
        ones, n = bits[rows].sum(axis=0, dtype=np.float64), rows.sum()
        share = ones / n
        spread = np.maximum(share * (1 - share), 1e-12)
        for k in np.unique(z[rows]):
            cell = rows & (z == k)
            count = cell.sum()
            seen = bits[cell].sum(axis=0, dtype=np.float64)
            score += np.where((ones > 0) & (ones < n), (seen - count * share) ** 2 / (count * spread), 0.0)
    return np.sort(np.argsort(-score, kind="stable")[:kept])
