"""Does a code tell anything of z? Counting it crossed, against the same with z shuffled.

The attack chosen on validation rows is tested in every audit, but a few rows may choose one that misses what counting
finds. So counting is tested as well, whichever attack was chosen. On *crossed* rows it learns from the other folds of
the test rows too: what it answers depends on their z. With its answers kept while z is shuffled, as for other attacks,
p would be too small (where codes are many and rows few, at 1 % it fires in 4 % of audits without a leak). So codes are
counted anew for each shuffle, and p is exact.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from edgeveil.trainer.attacks.families.code_counts import SHRINKAGE, CodeCounts, values
from edgeveil.trainer.attacks.findings import Row
from edgeveil.trainer.attacks.problem import Problem
from edgeveil.trainer.attacks.rows import Setting
from edgeveil.trainer.measures.attack_metrics import SHUFFLES, Permuted, permuted

LEARNED_ON = "crossed"


def is_crossed(row: Row) -> bool:
    """Whether it is of codes counted on crossed rows, which is there wherever outputs are codes."""
    return (row.name, row.learned_on) == (CodeCounts.name, LEARNED_ON)


def counting_test(setting: Setting, *, shuffles: int = SHUFFLES, rng: np.random.Generator) -> Permuted:
    """The permutation test of counting in the crossed ``setting``; its gain is that of counts as they are."""
    test = setting.whole.test
    folds, first = [], 0
    for problem in setting.folds:
        folds.append(_Fold.of(problem, setting.whole, first))
        first += len(problem.test)

    def gain(z: np.ndarray) -> float:
        return float(np.concatenate([fold.gains(z) for fold in folds]).mean())

    return permuted(gain, test.y, test.z, test.cluster, shuffles=shuffles, rng=rng)


class _Cells(NamedTuple):
    """Rows by their cell, which is y and code (n,), with P(z|y) of each row (n, classes of z)."""

    cell: np.ndarray
    prior: np.ndarray

    def share(self, counts: np.ndarray, total: np.ndarray, z: np.ndarray, weight: float) -> np.ndarray:
        """P(z | y, code) (n,) of the rows' own z (n,), by ``counts`` (cells, classes of z) with ``weight`` rows of
        P(z|y) added. ``total`` (cells,) are sums of ``counts``."""
        rows = np.arange(len(z))
        return (counts[self.cell, z] + weight * self.prior[rows, z]) / (total[self.cell] + weight)


class _Fold(NamedTuple):
    """One fold: ``counts`` (cells, classes of z) of rows that keep their z, and rows that shuffle it.

    ``cell`` (m,) are those of the rows of other folds, ``place`` (m,) where these stand among all test rows.
    """

    counts: np.ndarray
    cell: np.ndarray
    place: np.ndarray
    stop: _Cells
    stop_z: np.ndarray
    test: _Cells
    at: slice

    @classmethod
    def of(cls, problem: Problem, whole: Problem, first: int) -> _Fold:
        """The fold of ``problem``, whose test rows come after the ``first`` ones of ``whole``."""
        parts = (problem.fit, problem.stop, problem.test)
        code = np.unique(
            [value for part in parts for value in values(part, few=problem.few_values)], return_inverse=True
        )[1]
        codes = int(code.max()) + 1
        cells = [
            part.y * codes + of
            for part, of in zip(parts, np.split(code, np.cumsum([len(part) for part in parts[:2]])), strict=True)
        ]
        tested, learned = (cast(np.ndarray, part.row) for part in (whole.test, problem.fit))
        order = np.argsort(tested)
        place = order[np.searchsorted(tested, learned, sorter=order) % len(order)]
        moves = tested[place] == learned
        counts = np.zeros((problem.counted.shape[0] * codes, problem.z_classes))
        np.add.at(counts, (cells[0][~moves], problem.fit.z[~moves]), 1.0)
        return cls(
            counts,
            cells[0][moves],
            place[moves],
            _Cells(cells[1], problem.base(problem.stop)),
            problem.stop.z,
            _Cells(cells[2], problem.base(problem.test)),
            slice(first, first + len(problem.test)),
        )

    def gains(self, z: np.ndarray) -> np.ndarray:
        """Bits beyond P(z|y) of each row of the fold, were ``z`` (n,) that of all test rows."""
        counts = self.counts.copy()
        np.add.at(counts, (self.cell, z[self.place]), 1.0)
        total, mine = counts.sum(axis=1), z[self.at]

        def loss(weight: float) -> float:
            return float(-np.log(self.stop.share(counts, total, self.stop_z, weight)).sum())

        found = self.test.share(counts, total, mine, min(SHRINKAGE, key=loss))
        return np.log2(found / self.test.prior[np.arange(len(mine)), mine])
