"""An attack on releases whose outputs take few values: count z beside every one of them.

Where a code leaves (as a label, a code, or a picture that stands for one), nothing can do better than the best guess
from P(z | y, code), so counting it is as strong as any network and takes no time. Codes with few rows lean on P(z|y).
For a channel that is drawn afresh for every release, counting on released codes converges to the Bayes attacker who
knows the channel: c' is all that either of them sees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainer.audit.adversary import Kind
from trainer.audit.problem import Problem, Released

MOST_CODES = 4096
FEWEST_ROWS_PER_CODE = 8.0  # on average, for frames to count as codes
SHRINKAGE = (0.5, 2.0, 8.0, 32.0)  # rows that P(z|y) counts for; the best by cross-entropy on held-out rows is taken


class CodeCounts:
    """Counting: each code's share of every z, the strongest attack there is on a code alone."""

    name = "code counts"
    kind: Kind = "adaptive"
    seeded = False

    def why_not(self, problem: Problem) -> str | None:
        """Readings that do not repeat are no codes."""
        values, what = _values(problem.fit)
        count = len(np.unique(values, axis=0))
        if count > MOST_CODES or len(problem.fit) < FEWEST_ROWS_PER_CODE * count:
            return f"{count:,} different {what} in {len(problem.fit):,} rows are no codes to count"
        return None

    def fit(self, problem: Problem, seed: int) -> CodeAttack:
        """Count z by y and code on the training rows."""
        del seed
        fit, stop = problem.fit, problem.stop
        values, _ = _values(fit)
        known, code = np.unique(values, axis=0, return_inverse=True)
        places = {row.tobytes(): number for number, row in enumerate(known)}
        counts = np.zeros((*problem.counted.shape[:1], len(known) + 1, problem.z_classes))
        np.add.at(counts, (fit.y, code.reshape(-1), fit.z), 1.0)
        attacks = [CodeAttack(places, shrunk(counts, problem.counted, weight), len(fit)) for weight in SHRINKAGE]
        rows = np.arange(len(stop))
        return min(attacks, key=lambda one: -np.log(one.probabilities(stop)[rows, stop.z]).sum())


@dataclass(frozen=True)
class CodeAttack:
    """``table`` (classes of y, codes + 1, classes of z) is P(z | y, code); the last code is whatever was never seen."""

    places: dict[bytes, int]
    table: np.ndarray
    train_samples: int

    def probabilities(self, part: Released) -> np.ndarray:
        """The counted shares of each row's code."""
        values, _ = _values(part)
        last = self.table.shape[1] - 1
        return self.table[part.y, [self.places.get(row.tobytes(), last) for row in values]]


def shrunk(counts: np.ndarray, prior: np.ndarray, weight: float) -> np.ndarray:
    """P(z | y, code) of ``counts`` (Y, C, Z) with ``weight`` rows of ``prior`` (Y, Z) added to each code."""
    more = counts + weight * prior[:, None, :]
    return more / more.sum(axis=2, keepdims=True)


def _values(part: Released) -> tuple[np.ndarray, str]:
    """What may be codes: labels and codes that leave, else the frames themselves; contiguous (n, d) and its name."""
    if part.also is not None:
        return np.ascontiguousarray(part.also), "codes"
    return np.ascontiguousarray(part.x.reshape(len(part), -1)), "frames"
