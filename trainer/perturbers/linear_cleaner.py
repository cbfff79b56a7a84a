"""Linear cleaners as perturbers: operators from the recipe, and the cleaner in closed form."""

from __future__ import annotations

from typing import Any

from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.linear import cleaner
from edgeveil.trainer.linear.linear_problem import hidden_operator, linear_problem
from edgeveil.trainer.perturbers.base import as_perturber
from edgeveil.trainer.recipe.perturber import Cleaner
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.run import Log


def fit(section: Cleaner, dataset: Dataset, *, log: Log, **_: Any) -> FittedPerturber:
    """The recipe's cleaner, in closed form. Raises ``BadInput``."""
    from edgeveil.models.cleaners import linear_cleaner

    problem = linear_problem(section, dataset)
    if section.method == "exact":
        fitted = cleaner.exact(problem.a_d)
    elif section.method == "approximate":
        fitted = cleaner.approximate(problem.a_d, eps=problem.eps)
    else:
        a_c = hidden_operator(section, dataset, problem.mean)
        fitted = cleaner.algorithm1(problem.a_d, a_c, eps=problem.eps)
    log.record(cleaner={"rank": fitted.rank, "eps": fitted.eps})
    network = linear_cleaner(fitted.encoder, fitted.decoder, fitted.eps, problem.mean)
    return as_perturber(dataset.input, network, kind="cleaner", model="cleaner", identity_allowed=True)
