"""The score of a checkpoint by small networks newly trained on its output: adversaries of z, and a reader of y.

The adversaries of its own training are no measure: a generator may have learned to deceive just these. Each checkpoint
is scored by new ones, of the audit's families, which learn from perturbed rows of the second slice and are tested on
its validation rows. The audit tests on rows that no training has used.

D_y is one reader of y. Where it misses the recipe's floor, another that learns on the output is asked too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from edgeveil.trainer.attacks.families.forest import Forest
from edgeveil.trainer.attacks.families.lda import ShrinkageLDA
from edgeveil.trainer.attacks.families.mlp import BatchNormMLP
from edgeveil.trainer.attacks.problem import BUDGETS, Released, pose
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.datasets.base import Dataset, Part
from edgeveil.trainer.datasets.slicing import few
from edgeveil.trainer.runs.checkpoint_score import CheckpointScore

SMALL = replace(BUDGETS["quick"], name="checkpoint", rows=4000, epochs=12, patience=3, trees=60)
FAMILIES = (BatchNormMLP(), Forest())
READERS = (ShrinkageLDA(),)
STOPPING = 0.15  # share of the adversaries' rows that decides when they stop


def adversarial_accuracy(dataset: Dataset, seen: Part, made: np.ndarray, held: Part, held_made: np.ndarray) -> float:
    """The best accuracy about z, y known, of adversaries trained on ``made`` and tested on ``held_made``.

    ``made`` (n, *shape) and ``held_made`` are raw perturbed samples of the rows ``seen`` and ``held``. Of ``seen`` the
    first ``SMALL.rows`` are used.
    """
    left = Released(made[: SMALL.rows], seen.y[: SMALL.rows], seen.z[: SMALL.rows])
    return _most(dataset, left, Released(held_made, held.y, held.z), FAMILIES)


def read_too(
    score: CheckpointScore,
    floor: float,
    dataset: Dataset,
    seen: Part,
    made: Callable[[np.ndarray], np.ndarray],
    held: Part,
    held_made: np.ndarray,
) -> CheckpointScore:
    """The score with ``reader_accuracy``, of a reader of y that learns on x', where D_y alone misses ``floor``.

    ``made`` is a function of raw samples (n, ...) to raw perturbed ones. Of ``seen`` the first ``SMALL.rows`` are used.
    """
    if score.kept_accuracy >= floor:
        return score
    some = few(dataset, seen.take(np.arange(min(SMALL.rows, len(seen)))))
    parts = ((made(some.x), some.y), (held_made, held.y))
    left, test = (Released(x, np.zeros_like(y), y) for x, y in parts)
    about_y = replace(dataset, theta=np.full((1, len(dataset.y_names)), 1 / len(dataset.y_names)))
    return replace(score, reader_accuracy=_most(about_y, left, test, READERS))


def _most(dataset: Dataset, left: Released, test: Released, families: Sequence[Adversary]) -> float:
    """The best accuracy about z of ``test`` by families that learn on ``left``."""
    order = np.random.default_rng(0).permutation(len(left))
    stop = max(1, int(STOPPING * len(left)))
    parts = left.take(order[stop:]), left.take(order[:stop]), test
    problem = pose(dataset, left, parts, test, SMALL)
    attacks = (family.fit(problem, 0) for family in families)
    return max(float((attack.probabilities(test).argmax(axis=1) == test.z).mean()) for attack in attacks)


def rank(score: CheckpointScore, accuracy: float, *, floor: float, most_distance: float) -> tuple[float, ...]:
    """As ``CheckpointScore.rank``, with the accuracy of new adversaries in place of D_z's distance to MED."""
    first = score.rank(floor=floor, most_distance=most_distance)
    return first if first[0] else (*first[:2], accuracy)
