"""Linear cleaners as perturbers: operators from the recipe, the cleaner in closed form, and its stages."""

from __future__ import annotations

from typing import Any

from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.linear import cleaner
from edgeveil.trainer.linear.problem import hidden_operator, known
from edgeveil.trainer.recipe.perturber import Cleaner
from edgeveil.trainer.runs.fitted import FittedPerturber, frame_output, output_stage, preprocess_stage
from edgeveil.trainer.runs.log import Log


def fit(section: Cleaner, dataset: Dataset, *, log: Log, **_: Any) -> FittedPerturber:
    """The recipe's cleaner, in closed form. Raises ``BadInput``."""
    from edgeveil.models.cleaners import linear_cleaner

    made_of = known(section, dataset)
    if section.method == "exact":
        fitted = cleaner.exact(made_of.a_d)
    elif section.method == "approximate":
        fitted = cleaner.approximate(made_of.a_d, eps=made_of.eps)
    else:
        a_c = hidden_operator(section, dataset, made_of.mean)
        fitted = cleaner.algorithm1(made_of.a_d, a_c, eps=made_of.eps)
    log.record(cleaner={"rank": fitted.rank, "eps": fitted.eps})
    return perturber(dataset, linear_cleaner(fitted.encoder, fitted.decoder, fitted.eps, made_of.mean))


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
