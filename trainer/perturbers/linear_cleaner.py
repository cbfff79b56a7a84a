"""Linear cleaners as perturbers: operators from the recipe, the cleaner in closed form, and its stages."""

from __future__ import annotations

from typing import Any

from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.linear import cleaner
from edgeveil.trainer.linear.linear_problem import hidden_operator, linear_problem
from edgeveil.trainer.recipe.perturber import Cleaner
from edgeveil.trainer.runs.fitted import FittedPerturber, frame_output, output_stage, preprocess_stage
from edgeveil.trainer.runs.log import Log


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
    return perturber(dataset, linear_cleaner(fitted.encoder, fitted.decoder, fitted.eps, problem.mean))


def perturber(dataset: Dataset, network: Any) -> FittedPerturber:
    """The stages around a ``edgeveil.models.cleaners.linear_cleaner``."""
    return FittedPerturber(
        kind="cleaner",
        input=dataset.input,
        stages=(
            preprocess_stage(dataset.input),
            {
                "stage": "artefact",
                "model": "cleaner",
                "inputs": {"features": "u"},
                "outputs": {"output": "v", "code": "c"},
            },
            output_stage(dataset.input),
        ),
        outputs=(frame_output(dataset.input),),
        models={"cleaner": network},
        identity_allowed=True,
    )
