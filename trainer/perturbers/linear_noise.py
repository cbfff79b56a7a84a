"""The Laplace mechanism as a perturber: noise from the device's own generator, with the error of a cleaner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.perturbers.base import as_perturber
from edgeveil.trainer.perturbers.linear_cleaner import Linear
from edgeveil.trainer.runs.fitted import FittedPerturber

if TYPE_CHECKING:
    from edgeveil.trainer.runs.run import Log


class Noise(Linear):
    """Laplace noise on every feature with the error of a cleaner, to compare with. No differential privacy."""

    kinds = ("noise",)
    titles = ("Noise like a cleaner's",)
    only_float32 = "noise this small would be lost with fewer digits"
    drafted = "eps = 0.01            # the squared error of the cleaner that it is compared with\n"

    kind: Literal["noise"] = Field(description="Laplace noise on every feature.")

    def fit(self, dataset: Dataset, *, log: Log, **_: Any) -> FittedPerturber:
        """Laplace noise whose mean e_utility is the recipe's eps; nothing is trained."""
        from edgeveil.models.mechanisms import laplace
        from edgeveil.trainer.linear.linear_problem import linear_problem, scale_for

        problem = linear_problem(self, dataset)
        scale = scale_for(problem.a_d, eps=problem.eps)
        log.record(noise={"scale": scale, "eps": problem.eps})
        network = laplace(dataset.input.shape[0], scale)
        return as_perturber(dataset.input, network, kind="noise", model="mechanism", identity_allowed=True)
