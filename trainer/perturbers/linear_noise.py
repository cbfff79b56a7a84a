"""The Laplace mechanism as a perturber: noise from the device's own generator, with the error of a cleaner."""

from __future__ import annotations

from typing import Any

from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.linear.linear_problem import linear_problem, scale_for
from edgeveil.trainer.perturbers.base import as_perturber
from edgeveil.trainer.recipe.perturber import Noise
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.run import Log


def fit(section: Noise, dataset: Dataset, *, log: Log, **_: Any) -> FittedPerturber:
    """Laplace noise whose mean e_utility is the recipe's eps; nothing is trained."""
    from edgeveil.models.mechanisms import laplace

    problem = linear_problem(section, dataset)
    scale = scale_for(problem.a_d, eps=problem.eps)
    log.record(noise={"scale": scale, "eps": problem.eps})
    network = laplace(dataset.input.shape[0], scale)
    return as_perturber(dataset.input, network, kind="noise", model="mechanism", identity_allowed=True)
