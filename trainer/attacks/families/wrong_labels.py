"""An attack on the rows whose label is wrong: where y-hat is not y, a perturber was hardly ever checked.

These rows are few, so an attack on all rows does not learn what is special about them. Here attacks learn from them
alone. y-hat is read from what was sent: a random forest learns y from x', and another one from the further outputs; the
one that agrees with y more often is taken. Rows that a forest learned from are read by the trees that did not see them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.boosting import GradientBoosting
from edgeveil.trainer.attacks.families.estimator import View, log_loss
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.attacks.families.lowbits import LowBits
from edgeveil.trainer.attacks.families.networks import counting_stands_in
from edgeveil.trainer.attacks.families.parities import Parities
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Adversary, Attack, Kind, Learned

FEWEST_WRONG = (60, 10)  # rows of ``fit`` and of ``stop``
PRIOR_ROWS = 32  # that P(z|y) of all rows counts for
READER_ROWS = 8000
READER_TREES = 100
WITHIN: tuple[Adversary, ...] = (Logistic(), GradientBoosting(), LowBits(), Parities())


class WrongLabels:
    """The best of four attacks trained on rows with a wrong label; P(z|y) of right labels elsewhere."""

    name = "wrong labels"
    order = 21
    kind: Kind = "adaptive"
    seeded = True

    def why_not(self, problem: Problem) -> str | None:
        """Counting sees the label where few values occur; and there must be rows to learn from."""
        # A label that is never wrong is found out by reading it: ``fit`` then answers with P(z|y).
        fewest = FEWEST_WRONG[0]
        if len(problem.fit) < 4 * fewest:
            return f"{len(problem.fit)} rows hold too few with a wrong label"
        return counting_stands_in(problem)

    def fit(self, problem: Problem, seed: int) -> Learned:
        """Find the rows of ``fit`` and ``stop`` with a wrong label, and train on them."""
        problem = problem.capped(problem.budget.rows)
        fit, stop = problem.fit, problem.stop
        # The reader, of the frame or of the further outputs, that agrees with y most often on ``stop``.
        views: list[View] = [lambda part: features.flat(problem, part)]
        if problem.fit.also is not None:
            views.append(lambda part: np.asarray(part.also, np.float32))
        readers = [_reader(problem.fit, view, seed) for view in views]
        reader = max(readers, key=lambda one: float((one.labels(problem.stop) == problem.stop.y).mean()))
        seen, held = reader.of_fit != fit.y, reader.labels(stop) != stop.y
        right, wrong = (_counted(problem, np.flatnonzero(rows)) for rows in (~seen, seen))
        inner = None
        if seen.sum() >= FEWEST_WRONG[0] and held.sum() >= FEWEST_WRONG[1]:
            few = replace(
                problem, fit=fit.take(np.flatnonzero(seen)), stop=stop.take(np.flatnonzero(held)), counted=wrong
            )
            inner = best_attack(few, seed)

        def probabilities(part: Released) -> np.ndarray:
            read_wrong = reader.labels(part) != part.y
            out = np.where(read_wrong[:, None], wrong[part.y], right[part.y])
            if inner is not None and read_wrong.any():
                out[read_wrong] = inner.probabilities(part.take(np.flatnonzero(read_wrong)))
            return out

        return Learned(probabilities, len(fit) + len(stop))


@dataclass(frozen=True)
class Reader:
    """A forest that reads y from ``view`` (n, d), and what it says of the rows it learned from."""

    model: Any
    view: View
    of_fit: np.ndarray

    def labels(self, part: Released) -> np.ndarray:
        """The y that each row shows, (n,)."""
        return self.model.predict(self.view(part))


def best_attack(few: Problem, seed: int, within: Sequence[Adversary] = WITHIN) -> Attack | None:
    """The attack of ``within`` with the smallest log-loss on ``stop``; None where P(z|y) has a smaller one."""
    least, best = log_loss(few.base(few.stop), few.stop.z), None
    if len(np.unique(few.fit.z)) < 2:
        return best
    for family in within:
        if family.why_not(few) is None:
            attack = family.fit(few, seed)
            loss = log_loss(attack.probabilities(few.stop), few.stop.z)
            if loss < least:
                least, best = loss, attack
    return best


def _counted(problem: Problem, rows: np.ndarray) -> np.ndarray:
    """P(z|y) counted on these rows of ``fit``, leaning on that of all rows where there are few."""
    counts = PRIOR_ROWS * problem.counted
    np.add.at(counts, (problem.fit.y[rows], problem.fit.z[rows]), 1.0)
    return counts / counts.sum(axis=1, keepdims=True)


def _reader(fit: Released, view: View, seed: int) -> Reader:
    from sklearn.ensemble import RandomForestClassifier

    some = fit.take(np.arange(min(len(fit), READER_ROWS)))
    model = RandomForestClassifier(
        READER_TREES, min_samples_leaf=2, oob_score=True, n_jobs=2, random_state=seed, max_samples=0.5
    )
    model.fit(view(some), some.y)
    own = model.classes_[np.nan_to_num(model.oob_decision_function_).argmax(axis=1)]
    rest = fit.take(np.arange(len(some), len(fit)))
    return Reader(model, view, own if not len(rest) else np.concatenate([own, model.predict(view(rest))]))
