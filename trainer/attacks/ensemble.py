"""An ensemble of the best attacks: one may find what another misses.

Members and their number are chosen by cross-entropy on one half of the validation rows, never on test rows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from scipy import special

from edgeveil.trainer.attacks.problem import Problem
from edgeveil.trainer.attacks.scores.scoring import Scored, score
from edgeveil.trainer.datasets.base import Part
from edgeveil.trainer.datasets.slicing import hold_out
from edgeveil.trainer.measures.attack_metrics import FLOOR

NAME = "ensemble"
SIZES = (2, 3, 5)


def build_ensemble(problem: Problem, kept: Sequence[Scored], *, seed: int) -> Scored | None:
    """The mean of calibrated log-posteriors of the best adaptive attacks; None where there are not two of them."""
    begun = time.perf_counter()
    choose = problem.choose
    inner, _ = hold_out(Part(choose.x, choose.y, choose.z, choose.cluster, np.arange(len(choose))), share=0.5, seed=0)

    def loss(p: np.ndarray) -> float:
        return float(-np.log(np.maximum(p[inner, choose.z[inner]], FLOOR)).mean())

    adaptive = sorted((one for one in kept if one.row.kind == "adaptive"), key=lambda one: loss(one.sure["choose"]))
    if len(adaptive) < 2:
        return None
    sizes = [size for size in SIZES if size <= len(adaptive)]
    size = min(sizes, key=lambda size: loss(_mean(adaptive[:size], "choose")))
    members = adaptive[:size]
    learned_on = {one.row.learned_on for one in members}
    return score(
        problem,
        {part: _mean(members, part) for part in ("choose", "test")},
        name=NAME,
        kind="adaptive",
        learned_on=learned_on.pop() if len(learned_on) == 1 else "several",
        seed=seed,
        train_samples=max(one.row.train_samples for one in members),
        begun=begun,
        members=", ".join(one.row.label for one in members),
    )


def _mean(members: Sequence[Scored], part: str) -> np.ndarray:
    return special.softmax(np.mean([np.log(one.sure[part]) for one in members], axis=0), axis=1)
