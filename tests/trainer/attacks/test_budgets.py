"""A thorough audit is thorough: its networks are four times as large, and may train four times as long."""

from __future__ import annotations

import numpy as np
import pytest

from edgeveil.trainer.attacks.families import inversion
from edgeveil.trainer.attacks.families.cnn import BatchNormCNN, PlainCNN
from edgeveil.trainer.attacks.families.mlp import BatchNormMLP
from edgeveil.trainer.attacks.families.networks import affordable, join_late
from edgeveil.trainer.attacks.problem import BUDGETS, Problem, Released
from edgeveil.trainer.datasets.base import InputSpec

SHAPE = (28, 28, 1)


def network(family: str, budget: str):
    """An untrained network of that family, as an audit of pictures builds it."""
    import keras

    rows = Released(np.zeros((4, *SHAPE), np.uint8), np.arange(4) % 2, np.arange(4) % 2)
    spec, even = InputSpec("image", SHAPE, "uint8", 0.0, 255.0), np.full((2, 2), 0.5)
    problem = Problem(spec, even, even, rows, rows, rows, rows, BUDGETS[budget])
    if family == inversion.Inversion.name:
        return inversion._network(problem, 2, np.zeros((4, *SHAPE), np.float32))
    trunk = {one.name: one.trunk for one in (BatchNormMLP(), PlainCNN(), BatchNormCNN())}[family]
    frame = keras.Input(SHAPE)
    return join_late(problem, frame, trunk(frame, problem.budget.widen), 2)


@pytest.mark.parametrize("family", ["BatchNorm MLP", "CNN", "BatchNorm CNN", "inversion"])
def test_networks_of_a_thorough_audit_are_four_times_as_large_and_may_train_four_times_as_long(family):
    quick, thorough = (network(family, budget) for budget in ("quick", "thorough"))
    assert 3.5 < thorough.count_params() / quick.count_params() < 6
    rows = 10_000
    few, many = (
        affordable(model, rows, BUDGETS[budget]) for model, budget in ((quick, "quick"), (thorough, "thorough"))
    )
    assert few[0] == many[0] == rows
    assert 3 <= many[1] / few[1] <= 5
