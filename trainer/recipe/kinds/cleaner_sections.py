"""``[perturber]`` of a linear cleaner, and of the noise that it is compared with."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator

from edgeveil.trainer.recipe.section import Section


class _Linear(Section):
    """What a cleaner and the mechanism it is compared with share: an operator and the error it may make."""

    unbounded: ClassVar[bool] = True

    eps: float = Field(default=0.01, ge=0, description="Allowed squared error of the wanted outputs on each vector.")
    eps_per: Literal["label", "vector"] = Field(
        default="label", description="Whether `eps` is for each wanted output or for all of them together."
    )
    operator: str = Field(
        default="data",
        description='Where A_d, the predictor\'s first operator, is from: "data" (least squares on the first slice), '
        '"npy:FILE" (features, outputs), or "keras:FILE" (first Dense or Conv2D), relative to the recipe.',
    )
    ridge: float = Field(default=0.0, ge=0, description='Added to the diagonal by least squares; for `"data"` and A_c.')

    @field_validator("operator")
    @classmethod
    def _known_operator(cls, operator: str) -> str:
        kind, colon, place = operator.partition(":")
        if operator != "data" and not (kind in ("npy", "keras") and colon and place):
            raise ValueError('"data", "npy:FILE" or "keras:FILE"')
        return operator


class Cleaner(_Linear):
    """A linear cleaner (paper 000): removes from a vector what the predictor's operator does not need."""

    kind: Literal["cleaner"] = Field(description="A linear cleaner.")
    method: Literal["exact", "approximate", "algorithm1"] = Field(
        default="algorithm1",
        description="What is removed first: the null space alone (`eps` counts as 0), what A_d weighs least, or what "
        "is worth least to the predictor per worth to the adversary.",
    )


class Noise(_Linear):
    """Laplace noise on every feature with the error of a cleaner, to compare with. No differential privacy."""

    kind: Literal["noise"] = Field(description="Laplace noise on every feature.")
