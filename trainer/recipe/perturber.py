"""The ``[perturber]`` section of a recipe: one model per kind, told apart by ``kind``.

A new kind adds a model here or in ``kinds``, its name to ``Perturber``, and its module to
``edgeveil.trainer.perturbers.KINDS``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from edgeveil.trainer.recipe.kinds.cleaner_sections import Cleaner, Noise
from edgeveil.trainer.recipe.kinds.codebook_section import Codebook
from edgeveil.trainer.recipe.kinds.generator_sections import Generator, Minimax, PrGan
from edgeveil.trainer.recipe.kinds.local_section import Local
from edgeveil.trainer.recipe.section import MOST_EPSILON, Section

__all__ = [
    "Cleaner",
    "Codebook",
    "Generator",
    "LabelOnly",
    "Laplace",
    "Local",
    "Minimax",
    "Noise",
    "Perturber",
    "PrGan",
]


class LabelOnly(Section):
    """The floor: only the predicted y is sent, drawn as that class's mean training sample or as a donor's."""

    kind: Literal["label-only"] = Field(description="The predicted label is sent and nothing else.")
    network: Literal["target", "small", "table1-wifi"] = Field(
        default="target",
        description="The classifier that ships: D_y itself, or one of its own, trained on the second slice.",
    )
    width: int = Field(default=16, ge=1, le=512, description="Channels of the first layer; `small` only.")
    picture: Literal["mean", "donor"] = Field(
        default="mean",
        description='"mean": the mean of the class. "donor": a real sample of the class, drawn anew each time.',
    )
    donors: int = Field(default=256, ge=1, le=4096, description="donor: samples of each class, a power of two.")
    public_data: bool = Field(default=False, description="donor: the data are public, so receivers may see samples.")
    epsilon: float | None = Field(
        default=None,
        gt=0,
        le=MOST_EPSILON,
        description="alpha of randomised response (k-rr) behind the class: one release changes the odds of anything "
        "about its reading by a factor of at most e^alpha. Goes with `[spending]`. Left out: the class is sent as it "
        "is.",
    )


class Laplace(Section):
    """Discrete Laplace noise on every value: differentially private, and the same for y as for z."""

    kind: Literal["laplace"] = Field(description="The Laplace mechanism.")
    eps: float | None = Field(
        default=None,
        ge=1e-3,
        le=100,
        description="Epsilon of one value; that of a whole sample is this times the number of values. Left out: the "
        "smallest of 0.01 to 100 at which Acc(D_y) stays above `limits.target_accuracy` on validation.",
    )
    levels: int = Field(
        default=255,
        ge=1,
        le=65536,
        description="Steps between the smallest and the largest value; integers of one range have their own.",
    )


Perturber = Annotated[
    PrGan | Minimax | LabelOnly | Codebook | Cleaner | Noise | Laplace | Local, Field(discriminator="kind")
]
