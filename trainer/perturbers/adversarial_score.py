"""What a checkpoint of minimax is chosen by: small adversaries, freshly trained on what it makes.

The adversaries of its own training say little: a generator may have learned to please just these. Here each checkpoint
meets new ones, of the audit's own families, which learn from perturbed rows of the second slice and are tried on its
validation cut. The audit itself, on rows that nobody has seen, is still to come.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgeveil.trainer.attacks.families.forest import Forest
from edgeveil.trainer.attacks.families.mlp import BATCH_NORM_MLP
from edgeveil.trainer.attacks.problem import BUDGETS, Problem, Released
from edgeveil.trainer.datasets.base import Dataset, Part
from edgeveil.trainer.measures import attack_metrics
from edgeveil.trainer.training.checkpoint_score import Judgement

SMALL = replace(BUDGETS["quick"], name="checkpoint", rows=4000, epochs=12, patience=3, trees=60)
FAMILIES = (BATCH_NORM_MLP, Forest())
STOPPING = 0.15  # of the rows that adversaries learn from: to stop by


def fresh_accuracy(dataset: Dataset, seen: Part, made: np.ndarray, held: Part, held_made: np.ndarray) -> float:
    """The best accuracy about z, y known, of adversaries trained on ``made`` and tried on ``held_made``.

    ``made`` (n, *shape) and ``held_made`` are raw perturbed readings of the rows ``seen`` and ``held``; only the first
    few thousand of ``seen`` are learned from.
    """
    n = min(SMALL.rows, len(seen))
    left = Released(made[:n], seen.y[:n], seen.z[:n])
    order = np.random.default_rng(0).permutation(n)
    stop = max(1, int(STOPPING * n))
    tried = Released(held_made, held.y, held.z)
    problem = Problem(
        input=dataset.input,
        theta=dataset.theta,
        counted=attack_metrics.counted_prior(left.y, left.z, dataset.theta.shape),
        fit=left.take(order[stop:]),
        stop=left.take(order[:stop]),
        choose=tried,
        test=tried,
        budget=SMALL,
    )
    attacks = (family.fit(problem, 0) for family in FAMILIES)
    return max(float((attack.probabilities(tried).argmax(axis=1) == held.z).mean()) for attack in attacks)


def rank(judgement: Judgement, accuracy: float, *, floor: float, most_distance: float) -> tuple[float, ...]:
    """As ``Judgement.rank``, with the accuracy of fresh adversaries in the place of D_z's distance to MED."""
    first = judgement.rank(floor=floor, most_distance=most_distance)
    return first if first[0] else (*first[:2], accuracy)
