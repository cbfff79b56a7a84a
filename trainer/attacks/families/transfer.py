"""An outsider's classifier: another architecture, trained on clean samples of the first slice, applied to x'."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from edgeveil.trainer.attacks.families.cnn import batch_norm_trunk
from edgeveil.trainer.attacks.families.mlp import mlp_trunk
from edgeveil.trainer.attacks.families.networks import NetworkAttack, Trunk, train
from edgeveil.trainer.attacks.problem import FEWEST_ROWS, FEWEST_UNITS, Problem, Released, cut, joined
from edgeveil.trainer.attacks.protocol import Kind


class Transfer:
    """A BatchNorm CNN for pictures, a BatchNorm MLP for vectors."""

    name = "transfer"
    kind: Kind = "transfer"
    seeded = False  # not evidence: one will do

    def why_not(self, problem: Problem) -> str | None:
        """It needs clean rows, and enough of them."""
        clean = problem.clean
        if clean is None:
            return "no clean rows were given"
        units = len(clean) if clean.cluster is None else len(np.unique(clean.cluster))
        if len(clean) < FEWEST_ROWS or units < FEWEST_UNITS:
            return (
                f"the first slice holds {len(clean)} rows of {units} units, and {FEWEST_ROWS} of {FEWEST_UNITS} are "
                "needed to train another classifier"
            )
        return None

    def fit(self, problem: Problem, seed: int) -> TransferAttack:
        """Train on clean rows of the first slice, stopped on others of them."""
        clean = cast(Released, problem.clean)  # why_not looked
        learn, stop, rest = cut(clean, seed)
        learn = joined(learn, rest).take(np.arange(min(len(learn) + len(rest), problem.budget.rows)))
        trunk = trunk_for(problem)
        # Clean rows carry no outputs of a perturber beside the sample.
        bare = replace(problem, fit=learn, stop=stop)
        return TransferAttack(train(bare, trunk, seed, fit=learn, stop=stop, rate=2e-3))


def trunk_for(problem: Problem) -> Trunk:
    """The stronger of the trunks for the kind of sample."""
    return batch_norm_trunk if problem.input.kind == "image" else mlp_trunk


@dataclass(frozen=True)
class TransferAttack:
    """The network on the frame alone: whatever else the perturber sends did not exist when it was trained."""

    network: NetworkAttack

    @property
    def train_samples(self) -> int:
        """Clean rows it learned from."""
        return self.network.train_samples

    def probabilities(self, part: Released) -> np.ndarray:
        """P(z | x', y) of each row, as if x' were a clean sample."""
        return self.network.probabilities(replace(part, also=None))
