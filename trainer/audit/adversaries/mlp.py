"""A BatchNorm MLP: the best breaker of faces hidden by PR-GAN, where small CNNs stay 20 to 35 points behind."""

from __future__ import annotations

from typing import Any

from trainer.audit.adversaries.networks import NetworkAttack, train
from trainer.audit.adversary import Everywhere, Kind
from trainer.audit.problem import Problem


class BatchNormMLP(Everywhere):
    """Two hidden layers on all values, standardised."""

    name = "BatchNorm MLP"
    kind: Kind = "adaptive"
    seeded = True

    def fit(self, problem: Problem, seed: int) -> NetworkAttack:
        """Train on ``fit``, stopped on ``stop``."""
        problem = problem.capped(problem.budget.rows)
        return train(problem, mlp_trunk, seed, fit=problem.fit, stop=problem.stop, rate=2e-3)


def mlp_trunk(reading: Any) -> Any:
    """Two hidden layers of 384 and 192 with BatchNorm and a little dropout."""
    from keras import layers

    x = layers.Flatten()(reading)
    for width in (384, 192):
        x = layers.Dense(width, use_bias=False)(x)
        x = layers.BatchNormalization(momentum=0.9)(x)
        x = layers.ReLU()(x)
        x = layers.Dropout(0.2)(x)
    return x
