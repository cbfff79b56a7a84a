"""The score of a checkpoint of minimax: the accuracy of small adversaries, newly trained on its output.

The adversaries of its own training are no measure: a generator may have learned to deceive just these. Each checkpoint
is scored by new ones, of the audit's families, which learn from perturbed rows of the second slice and are tested on
its validation rows. The audit tests on rows that no training has used.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgeveil.trainer.attacks.families.forest import Forest
from edgeveil.trainer.attacks.families.mlp import BatchNormMLP
from edgeveil.trainer.attacks.problem import BUDGETS, Released, posed
from edgeveil.trainer.datasets.base import Dataset, Part
from edgeveil.trainer.runs.checkpoint_score import CheckpointScore

SMALL = replace(BUDGETS["quick"], name="checkpoint", rows=4000, epochs=12, patience=3, trees=60)
FAMILIES = (BatchNormMLP(), Forest())
STOPPING = 0.15  # share of the adversaries' rows that decides when they stop


def adversarial_accuracy(dataset: Dataset, seen: Part, made: np.ndarray, held: Part, held_made: np.ndarray) -> float:
    """The best accuracy about z, y known, of adversaries trained on ``made`` and tested on ``held_made``.

    ``made`` (n, *shape) and ``held_made`` are raw perturbed samples of the rows ``seen`` and ``held``. Of ``seen`` the
    first ``SMALL.rows`` are used.
    """
    n = min(SMALL.rows, len(seen))
    left = Released(made[:n], seen.y[:n], seen.z[:n])
    order = np.random.default_rng(0).permutation(n)
    stop = max(1, int(STOPPING * n))
    test = Released(held_made, held.y, held.z)
    parts = left.take(order[stop:]), left.take(order[:stop]), test
    problem = posed(dataset, left, parts, test, SMALL)
    attacks = (family.fit(problem, 0) for family in FAMILIES)
    return max(float((attack.probabilities(test).argmax(axis=1) == held.z).mean()) for attack in attacks)


def rank(score: CheckpointScore, accuracy: float, *, floor: float, most_distance: float) -> tuple[float, ...]:
    """As ``CheckpointScore.rank``, with the accuracy of new adversaries in place of D_z's distance to MED."""
    first = score.rank(floor=floor, most_distance=most_distance)
    return first if first[0] else (*first[:2], accuracy)
