"""An attack on few rows that a rare value marks: only in these does a bit depend on z.

On all rows such a bit hardly depends on z, and trees do not try what is behind a value of one row in fifty. Here every
rare value (``marks``) is set against every bit of ``parities``, by one product of matrices: in its rows, how much does
the bit depend on z, given y? Of 4,200 rows to learn on, 39 to 95 marked ones were found in each of 13 releases, and 29
to 35 in none of three.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse, stats

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.estimator import behind
from edgeveil.trainer.attacks.families.networks import Learner
from edgeveil.trainer.attacks.families.parities import EVERY_PLANE, columns, contrasts_of, higher, picked, weights
from edgeveil.trainer.attacks.features import Levels
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Learned

FEWEST_MARKED, MOST_MARKED = 20, 0.1  # rows of ``fit``; share of them
TAILS = (0.005, 0.01, 0.02)  # of the rows, at each end of a value's range: a mark that is rarer than its tail hides
KEPT, CONFIRMED = 16, 0.05
FEWEST_ROWS = 2048  # searched, however large the frames
MOST_STEPS, MOST_SCORES = 2e9, 2e7  # multiply-adds of the search; marks times bits


class MarkedRows(Learner):
    """Bits that depend on z only in the few rows that a rare value marks; a linear model."""

    name = "marked rows"
    order = 24

    def fit(self, problem: Problem, seed: int) -> Learned:
        """Search marks and their bits on ``fit``, keep those that are sure there or on ``stop``, weigh them on both."""
        from sklearn.linear_model import LogisticRegression

        problem = problem.capped(problem.budget.rows)
        fit, stop = problem.fit, problem.stop
        marks, levels = Marks.from_samples(fit.x), Levels.from_samples(fit.x)
        mark, bit, p = search(problem, marks, levels, np.random.default_rng([seed, 18]))

        def signed(part: Released) -> np.ndarray:
            signs = np.ones((len(part), len(bit)), np.float32)
            signs[:, bit >= 0] -= 2 * picked(part, bit[bit >= 0], levels)
            return marks.of_rows(part.x, mark) * signs

        scores, degrees = dependence(signed(stop), stop, np.eye(problem.z_classes)[1:])
        confirmed = np.minimum(p, KEPT * stats.chi2.sf(scores, max(1, degrees))) < CONFIRMED

        def view(part: Released) -> np.ndarray:
            known = features.side(problem, part)
            seen = signed(part)[:, confirmed]
            # Rows of each y have weights of their own.
            of_y = seen[:, :, None] * known[:, None, : problem.theta.shape[0]]
            return np.concatenate([of_y.reshape(len(part), -1), known], axis=1)

        training = problem.training()
        model = LogisticRegression(max_iter=200).fit(view(training), training.z)
        return behind(view, model, problem, len(training))


@dataclass(frozen=True)
class Marks:
    """Values that few rows have: ``bound`` (k, d) of each place, of which the first is its commonest value, half of the
    others the ends of its ``TAILS`` from below, half those from above."""

    bound: np.ndarray

    @classmethod
    def from_samples(cls, x: np.ndarray) -> Marks:
        """Those of x (n, ...)."""
        ordered = np.sort(x.reshape(len(x), -1), axis=0)
        ends = [int(tail * len(x)) for tail in TAILS]
        # The commonest value of a place, where it has nearly all rows, is the middle one.
        return cls(ordered[[len(x) // 2, *ends, *(-1 - end for end in ends)]])

    def numbers(self) -> np.ndarray:
        """Of all that are different: places in ``bound``, as one row of numbers."""
        new = np.ones(self.bound.shape, bool)
        new[2:] = self.bound[2:] != self.bound[1:-1]
        new[1 + len(TAILS)] = True
        return np.flatnonzero(new)

    def of_rows(self, x: np.ndarray, some: np.ndarray) -> np.ndarray:
        """Whether each row of x (n, ...) is marked by each of the marks ``some`` (k,), bool (n, k)."""
        kind, place = np.divmod(some, self.bound.shape[1])
        values, bound = x.reshape(len(x), -1)[:, place], self.bound[kind, place]
        beyond = np.where(kind <= len(TAILS), values <= bound, values >= bound)
        return np.where(kind == 0, values != bound, beyond)


def search(
    problem: Problem, marks: Marks, levels: Levels | None, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The marks (k,) and bits (k,) of which the bits depend most on z given y in the marked rows of ``fit``, and the
    p-value (k,) of each, corrected for all that were asked. Bit -1 is the mark by itself.
    """
    contrasts = contrasts_of(problem.z_classes, rng)
    affordable = int(MOST_STEPS / (len(contrasts) * 3 * EVERY_PLANE * TAILS[-1] * problem.fit.x[:1].size ** 2))
    fit = problem.fit.take(np.arange(min(len(problem.fit), max(FEWEST_ROWS, affordable))))
    every = marks.numbers()
    here = marks.of_rows(fit.x, every)
    often = here.sum(axis=0)
    bits = np.concatenate([columns(fit, levels), higher(fit, levels)], axis=1)
    some = np.flatnonzero((often >= FEWEST_MARKED) & (often <= MOST_MARKED * len(fit)))
    some = np.sort(rng.permutation(some)[: int(MOST_SCORES / bits.shape[1])])
    if not len(some):
        return some, some, np.empty(0)
    # The last column is that of the mark by itself.
    signs = np.append(1 - 2 * bits.astype(np.float32), np.ones((len(bits), 1), np.float32), axis=1)
    marked = sparse.csr_matrix(here[:, some].astype(np.float32))
    score, degrees = np.zeros((len(some), signs.shape[1]), np.float32), 0
    for rows, weight in weights(fit.y, fit.z, contrasts):
        of_rows = marked[rows]
        spread = np.asarray(np.maximum(of_rows.sum(axis=0), FEWEST_MARKED) / len(rows), np.float32)
        for one in weight.T:
            score += np.square(of_rows.multiply(one[:, None]).T.tocsr() @ signs[rows]) / spread.T
        degrees += int((weight != 0).any(axis=0).sum())
    mark, bit = np.unravel_index(np.argsort(-score, axis=None, kind="stable")[:KEPT], score.shape)
    p = score.size * stats.chi2.sf(score[mark, bit].astype(np.float64), max(1, degrees))
    return every[some[mark]], np.where(bit < bits.shape[1], bit, -1), p


def dependence(signed: np.ndarray, part: Released, contrasts: np.ndarray) -> tuple[np.ndarray, int]:
    """How much each column of ``signed`` (n, k), 0 where a row is not marked, depends on the contrasts of z given y;
    and its degrees of freedom."""
    score, degrees = np.zeros(signed.shape[1]), 0
    for rows, weight in weights(part.y, part.z, contrasts):
        share = np.maximum(np.abs(signed[rows]).mean(axis=0), 1 / len(rows))
        score += np.square(weight.T @ signed[rows]).sum(axis=0) / share
        degrees += int((weight != 0).any(axis=0).sum())
    return score, degrees
