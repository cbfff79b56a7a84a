"""An outsider's classifier: another architecture, trained on clean samples of the first slice, applied to x'."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from edgeveil.trainer.attacks.families.cnn import batch_norm_trunk
from edgeveil.trainer.attacks.families.mlp import mlp_trunk
from edgeveil.trainer.attacks.families.network import series_trunk
from edgeveil.trainer.attacks.families.networks import Trunk, train
from edgeveil.trainer.attacks.problem import Problem, Released, cut, enough, joined, units_of
from edgeveil.trainer.attacks.protocol import Kind, Learned
from edgeveil.trainer.measures.enough import LEARN_ROWS, LEARN_UNITS

SHARE = 0.25  # of a network's budget: clean samples are easy to learn, and what it reads is no evidence


class Transfer:
    """A BatchNorm CNN for pictures, one over time for series, a BatchNorm MLP for vectors."""

    name = "transfer"
    order = 2
    kind: Kind = "transfer"
    seeded = False  # not evidence: one will do

    def why_not(self, problem: Problem) -> str | None:
        """It needs clean rows, and enough of them."""
        clean = problem.clean
        if clean is None:
            return "no clean rows were given"
        if enough(clean):
            return None
        return (
            f"another classifier needs {LEARN_ROWS} rows of {LEARN_UNITS} units in the first slice; it holds "
            f"{len(clean)} of {units_of(clean)}"
        )

    def fit(self, problem: Problem, seed: int) -> Learned:
        """Train on clean rows of the first slice, stopped on others of them."""
        clean = cast(Released, problem.clean)  # why_not looked
        learn, stop, rest = cut(clean, seed)
        learn = joined(learn, rest).take(slice(problem.budget.rows))
        bare = replace(problem, fit=learn, stop=stop, budget=replace(problem.budget, macs=problem.budget.macs * SHARE))
        network = train(bare, trunk_for(problem), seed, fit=learn, stop=stop, rate=2e-3)
        # A perturber's further outputs did not exist when it was trained: it sees the frame and y alone.
        return replace(network, probabilities=lambda part: network.probabilities(replace(part, also=None)))


def trunk_for(problem: Problem) -> Trunk:
    """The stronger of the trunks for the kind of sample."""
    return {"image": batch_norm_trunk, "series": series_trunk, "vector": mlp_trunk}[problem.input.kind]
