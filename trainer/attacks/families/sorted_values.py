"""An attack on the values of x' in the order of their size, and on what repeats among them.

How many different values there are, how large the gaps between them are, or a patch that occurs twice: none of it is
at one place, so trees on values find none of it, and a convolution does not count.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.estimator import trees
from edgeveil.trainer.attacks.families.networks import Learner
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Learned

FEWEST_VALUES = 8  # of a row; fewer are in the reach of trees on the values themselves
MOST_PLACES = 64  # of the sorted values, and of their gaps, evenly spaced where there are more
MOST_AT_ONCE = 2e6  # values, of which there are some copies of 64 bits
MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, so that two neighbours make one number of 64 bits


class SortedValues(Learner):
    """Trees on values and gaps in order of size, and how many values and pairs differ."""

    name = "sorted values and gaps"
    order = 22

    def why_not(self, problem: Problem) -> str | None:
        """Trees see a handful of values without sorting; and where x' takes few values, counting is exact."""
        if problem.fit.x[:1].size < FEWEST_VALUES:
            return f"x' has fewer than {FEWEST_VALUES} values, which trees see as they are"
        return super().why_not(problem)

    def fit(self, problem: Problem, seed: int) -> Learned:
        """Train on ``fit``, stopped on ``stop``."""
        problem = problem.capped(problem.budget.rows)
        return trees(problem, partial(sorted_features, problem), seed)


def sorted_features(problem: Problem, part: Released) -> np.ndarray:
    """Sorted values and gaps, counts of what is different, y and further outputs of each row, float32 (n, k)."""
    step, blocks = max(1, int(MOST_AT_ONCE / part.x[:1].size)), []
    for start in range(0, len(part), step):
        piece = part.take(np.arange(start, min(len(part), start + step)))
        values = np.sort(features.flat(problem, piece), axis=1)
        gaps = np.sort(np.diff(values, axis=1), axis=1)
        some = [each[:, _places(each.shape[1])] for each in (values, gaps)]
        blocks.append(np.concatenate([*some, different(piece.x), features.side(problem, piece)], axis=1))
    return np.concatenate(blocks)


def different(x: np.ndarray) -> np.ndarray:
    """How many different values each row of x (n, ...) has, and how many different pairs of neighbours along each axis
    of its frame: float32 (n, 1 + axes longer than 1)."""
    whole = np.ascontiguousarray(x)
    number = whole.view(f"u{whole.dtype.itemsize}").astype(np.uint64)
    counted = [number]
    for axis in range(1, x.ndim):
        if x.shape[axis] > 1:
            along = np.moveaxis(number, axis, 1)
            counted.append(along[:, :-1] * MIX + along[:, 1:])
    return np.stack([_different(each.reshape(len(x), -1)) for each in counted], axis=1)


def _different(number: np.ndarray) -> np.ndarray:
    ordered = np.sort(number, axis=1)
    return (1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)).astype(np.float32)


def _places(width: int) -> np.ndarray:
    return np.unique(np.linspace(0, width - 1, min(width, MOST_PLACES)).round().astype(int))
